"""The command line. Results go to stdout, messages to stderr; `exit_codes` has the exit codes.

Heavy imports wait until a command needs them, so that `--help` answers at once.
"""

# ruff: noqa: PLC0415

import contextlib
import dataclasses
import os
import shlex
import signal
from operator import itemgetter
from pathlib import Path
from typing import Any

import click

from orchestrator import __version__
from orchestrator.cli import exit_codes, first_steps, jobs, output, reports
from orchestrator.cli.best import bench, best, predict
from orchestrator.cli.run import run
from orchestrator.cli.ui import ui
from orchestrator.core.errors import Refusal
from orchestrator.core.text import counted
from orchestrator.storage.home import sweep_home


@click.group(
    cls=exit_codes.CommandGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=exit_codes.EXIT_CODES_HELP,
)
@click.version_option(__version__, prog_name="rnnsweep")
def main() -> None:
    """Sweep recurrent networks over hardware and implementations, and compare them."""


@main.command()
@output.spec_argument
@output.set_option
@output.address_option
@output.same_code_option
@click.option("--nodes", "fleets", multiple=True, metavar="FLEET")
@output.json_option
def plan(
    spec: Path,
    overrides: tuple[str, ...],
    address: str | None,
    same_code: bool,
    fleets: tuple[str, ...],
    form: str | None,
) -> None:
    """Show what would run where, what cannot run, and how long it takes."""
    from orchestrator.cluster import connection
    from orchestrator.execution.workload_check import expect_importable
    from orchestrator.hardware import classify
    from orchestrator.planning.description import describe_plan
    from orchestrator.planning.lanes import make_lanes
    from orchestrator.planning.objectives import open_limit
    from orchestrator.planning.plan import make_plan
    from orchestrator.scheduling.forecast import Forecaster
    from orchestrator.scheduling.forecast_text import describe_forecast
    from orchestrator.scheduling.remaining import remaining_work
    from orchestrator.scheduling.runnable import expect_runnable
    from orchestrator.spec import load
    from orchestrator.storage import resume
    from orchestrator.storage.home import SweepFolder
    from orchestrator.storage.tracking.mlflow.address import tracking_uri

    checked = load(spec, overrides)
    expect_importable(checked, on_cluster=address is not None)
    with contextlib.ExitStack() as stack:
        nodes = connection.this_machine()
        if address is not None:
            cluster = connection.connect(address, may_be_empty=checked.may_wait)
            nodes = stack.enter_context(cluster)
        made = make_plan(checked, classify(nodes), "to come" if address is not None else None)
    home = sweep_home()
    store = tracking_uri(home, os.environ)
    state = resume.preview(SweepFolder(home, checked.name), checked, store, same_code=same_code)
    work = remaining_work(checked, made, state, retry_failed=False)
    made = work.running
    forecaster = Forecaster(checked, state)
    expected = forecaster.forecast(work, each_config=form == "json")
    others = forecaster.fleets(fleets, nodes)
    if form == "json":
        head = {"format": "rnnsweep-plan", "version": 4}
        pruner = checked.search.pruner.name if checked.search.pruner else None
        opening = {"open_blocks": open_limit(checked, made, make_lanes(made)), "pruner": pruner}
        rest = dataclasses.asdict(expected) | {"fleets": list(map(dataclasses.asdict, others))}
        output.write({**head, **made.as_json(), **opening, **rest})
    else:
        stopped = [f"  {work.failures.describe(arm)}" for arm in work.failures.stopped]
        output.show(f"{describe_plan(checked, made, expected.waits, stopped)}\n")
    if not fleets:
        expect_runnable(checked, work.plan)
    if form != "json" and work.plan.possible and not made.possible:
        output.show("every arm is stopped: nothing is left to run\n")
    elif form != "json":
        at_most = made.ending == "open" or checked.search.pruner is not None
        output.show(f"{describe_forecast(expected, others, at_most=at_most)}\n")


@main.command("list")
@output.json_option
def list_command(form: str | None) -> None:
    """List the sweeps of this machine and of its store, latest first."""
    from orchestrator.cli import local
    from orchestrator.report.document import Column, Document, Section, make_table
    from orchestrator.storage.tracking.mlflow.address import shown, tracking_uri

    home = sweep_home()
    store = tracking_uri(home, os.environ)
    sweeps = local.list_sweeps(home, store)
    places = {"home": str(home), "store": shown(store)}
    if form == "json":
        output.write({"format": "rnnsweep-list", "version": 1, **places, "sweeps": sweeps})
        return
    columns = [
        Column(name.replace("_", " "), itemgetter(name), show=_cell, numeric=isinstance(cell, int))
        for name, cell in (sweeps[0] if sweeps else {}).items()
    ]
    section = Section("Sweeps", tables=(make_table(columns, sweeps),) if sweeps else ())
    title = f"{counted(len(sweeps), 'sweep')} in the home {home} and the store {shown(store)}"
    output.write(Document(title, (section,)))


def _cell(value: object) -> str:
    return ", ".join(value) if isinstance(value, list) else str(value)


_OTHERS = (*first_steps.COMMANDS, *jobs.COMMANDS, *reports.COMMANDS)
for _command in (run, bench, ui, best, predict, *_OTHERS):
    main.add_command(_command)


@main.command()
@output.address_option
@click.option("--measure", is_flag=True)
@click.option("--fresh", is_flag=True)
@output.json_option
def hardware(address: str | None, measure: bool, fresh: bool, form: str | None) -> int:
    """Show the hardware of this machine or of a cluster, by class."""
    from orchestrator.cluster import connection
    from orchestrator.diagnostics import peaks
    from orchestrator.diagnostics.hardware_listing import hardware_document, hardware_json
    from orchestrator.hardware import classify

    if fresh and not measure:
        raise Refusal("--fresh: expected together with --measure; received it alone")
    with contextlib.ExitStack() as stack:
        nodes = connection.this_machine()
        if address is not None:
            nodes = stack.enter_context(connection.connect(address))
        classes = classify(nodes)
        if measure:
            with exit_codes.interrupted_by(signal.SIGTERM):
                measured, failures = peaks.measure(
                    classes, sweep_home(), output.show_progress, fresh=fresh
                )
        else:
            measured, failures = peaks.stored_peaks(sweep_home(), classes), ()
    listed = hardware_json if form == "json" else hardware_document
    output.write(listed(classes, measured))
    return exit_codes.WITH_FAILURES if failures else exit_codes.COMPLETE


@main.command()
@click.argument("name", required=False)
@output.set_option
@output.json_option
def workloads(name: str | None, overrides: tuple[str, ...], form: str | None) -> None:
    """List the workloads and their settings, or describe one."""
    from orchestrator.cluster import connection
    from orchestrator.diagnostics import workload_catalogue as catalogue
    from orchestrator.hardware import classify

    if overrides and name is None:
        raise Refusal(
            "--set: expected a workload before it, as in rnnsweep workloads NAME --set KEY=VALUE"
        )
    classes = classify(connection.this_machine())
    listing = catalogue.Catalogue(classes)
    if name:
        listing = catalogue.workload_catalogue(name, overrides, classes)
    output.write((catalogue.as_json if form == "json" else catalogue.to_document)(listing))


@main.command()
@click.argument("implementations", metavar="[IMPLEMENTATION]...", nargs=-1)
@output.set_option
@click.option("--samples", type=click.IntRange(min=1))
@click.option("--tolerance", type=click.FloatRange(min=0, min_open=True))
@click.option("--save", "into", metavar="DIR", type=output.FILE)
@click.option("--load", "source", metavar="DIR", type=output.FILE)
@output.json_option
def parity(
    implementations: tuple[str, ...],
    overrides: tuple[str, ...],
    samples: int | None,
    form: str | None,
    **options: Any,
) -> int:
    """Check that implementations agree on the same weights."""
    from orchestrator.diagnostics import parity as checks

    if options["into"] is not None and options["source"] is not None:
        raise Refusal("expected --save or --load; received both: run the command twice")
    if samples is not None:
        overrides = (*overrides, f"validation_samples={samples}")
    with exit_codes.interrupted_by(signal.SIGTERM):  # trainers and temporary files go, as on Ctrl-C
        result = checks.check(implementations, overrides, output.show_progress, **options)
    output.write((checks.as_json if form == "json" else checks.to_document)(result))
    if result.kept_in:
        command = shlex.join(["rnnsweep", "parity", "--load", str(result.kept_in)])
        output.show(
            f"Compare, here or on another machine that has the folder:\n  {command}\n", err=True
        )
    return exit_codes.COMPLETE if result.is_good else exit_codes.WITH_FAILURES
