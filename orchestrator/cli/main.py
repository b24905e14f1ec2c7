"""The command line: commands, messages and exit codes. Results go to stdout, all else to stderr.

Exit codes: 0 complete; 1 complete with failed trials; 2 the spec or the command line is wrong
(nothing was run); 3 stopped and resumable. Heavy imports wait until a command needs them, so
that `--help` answers at once.
"""

# ruff: noqa: PLC0415

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import signal
from pathlib import Path
from typing import Any

import click

from orchestrator import __version__
from orchestrator.cli import jobs, reports
from orchestrator.cli.exit_codes import COMPLETE, WITH_FAILURES, Commands, refusing, show, width
from orchestrator.cli.jobs import dashboard_option
from orchestrator.cli.options import set_option, spec_argument
from orchestrator.core.errors import Refusal
from orchestrator.storage.home import sweep_home

_address_option = click.option(
    "--address",
    metavar="ADDR",
    help="Address of a running Ray cluster; without it, this machine alone is used.",
)


@click.group(
    cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.version_option(__version__, prog_name="rnnsweep")
def main() -> None:
    """Sweep recurrent networks over hardware and implementations, and compare them."""


@main.command()
@spec_argument
@set_option
@_address_option
@click.option("--fresh", is_flag=True, help="Start anew, beside the trials that are there.")
@click.option("--retry-failed", is_flag=True, help="Do failed trials again.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask before a large sweep.")
@click.option("--again", hidden=True, help="The command that goes on with it, to be told.")
@refusing
def run(spec: Path, overrides: tuple[str, ...], **choices: Any) -> int:
    """Run, or finish, the sweep of a SPEC file; report."""
    from orchestrator.cli.run import Choices, start

    return start(spec, overrides, Choices(**choices))


@main.command()
@spec_argument
@set_option
@_address_option
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text")
@refusing
def plan(spec: Path, overrides: tuple[str, ...], address: str | None, form: str) -> None:
    """Say what would run where, what cannot and why; run nothing."""
    from orchestrator.analysis.forecast.forecast import describe_forecast, forecast
    from orchestrator.cluster import connection
    from orchestrator.hardware import classify
    from orchestrator.planning.lanes import make_lanes
    from orchestrator.planning.open_blocks import describe_opening, open_limit
    from orchestrator.planning.plan import describe_plan, make_plan
    from orchestrator.planning.pricing import describe_prices
    from orchestrator.scheduling.preflight import expect_runnable
    from orchestrator.spec import load
    from orchestrator.storage.home import SweepFolder

    loaded = load(spec, overrides)
    with contextlib.ExitStack() as stack:
        nodes = connection.this_machine()
        if address is not None:
            found = connection.connect(address, may_be_empty=loaded.may_wait)
            nodes = stack.enter_context(found)
        laid = make_plan(loaded, classify(nodes), "to come" if address is not None else None)
    folder = SweepFolder(sweep_home(), loaded.name)
    ahead = forecast(laid, folder, loaded, each_config=form == "json")
    if form == "json":
        opening = {"open_blocks": open_limit(loaded, laid, make_lanes(laid))}
        body = {"format": "rnnsweep-plan", "version": 1, **laid.as_json(), **opening}
        _say(json.dumps({**body, **dataclasses.asdict(ahead)}, indent=2))
    else:
        _say(describe_plan(laid, loaded.name))
        for line in describe_prices(loaded.prices, (arm.hardware for arm in laid.arms)):
            _say(line)
        if told := describe_opening(loaded, laid, make_lanes(laid), ahead.trial_s):
            _say(told)
    expect_runnable(loaded, laid)
    if form == "json":
        return
    _say(describe_forecast(ahead, at_most=laid.auto is not None))


@main.command()
@click.argument("sweep", required=False)
@dashboard_option
@refusing
def status(sweep: str | None, address: str | None) -> None:
    """Say how far the sweeps of this home or of a cluster, or one, are."""
    from orchestrator.cli import submit
    from orchestrator.cli.status import describe_sweeps

    if address is not None:
        show(submit.status(address, sweep))
    else:
        show(describe_sweeps(sweep_home(), sweep))


for _module in (jobs, reports):
    for _each in _module.COMMANDS:
        main.add_command(_each)


@main.command()
@_address_option
@click.option("--measure", is_flag=True, help="Measure each class's peaks that are not kept yet.")
@click.option("--fresh", is_flag=True, help="With --measure: measure all of them anew.")
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text")
@refusing
def hardware(address: str | None, measure: bool, fresh: bool, form: str) -> int:
    """Say what the cluster, or this machine, is made of.

    With --measure each installed backend is timed on one node of each class, in a trainer process:
    a matrix product and a copy, in float32, bfloat16 and, on a GPU, TF32. That takes a minute or
    so, and is kept by class and versions. Exit code 1 if a class could not be measured.
    """
    from orchestrator.cluster import connection
    from orchestrator.diagnostics import peaks
    from orchestrator.hardware import classify, describe_hardware, hardware_json

    if fresh and not measure:
        raise Refusal("--fresh: expected together with --measure; received it alone")
    with contextlib.ExitStack() as stack:
        nodes = connection.this_machine()
        if address is not None:
            nodes = stack.enter_context(connection.connect(address))
        classes = classify(nodes)
        if measure:
            signal.signal(signal.SIGTERM, signal.default_int_handler)  # trainers go, as on Ctrl-C
            found = peaks.measure(
                classes, sweep_home(), lambda line: show(f"{line}\n", err=True), fresh=fresh
            )
        else:
            found = peaks.PeakMeasurements(peaks.kept(sweep_home(), classes), ())
    if form == "json":
        _say(json.dumps(hardware_json(classes, found.peaks), indent=2))
    else:
        _say(describe_hardware(classes, found.peaks, width()))
    return WITH_FAILURES if found.failures else COMPLETE


@main.command()
@click.argument("name", required=False)
@click.option(
    "--set",
    "overrides",
    metavar="KEY=VALUE",
    multiple=True,
    help="Ask what runs with this setting of NAME, such as cell=gru; may be repeated.",
)
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text")
@refusing
def workloads(name: str | None, overrides: tuple[str, ...], form: str) -> None:
    """List workloads, or one by NAME: settings, metrics, what can run here and why not."""
    from orchestrator.cluster import connection
    from orchestrator.diagnostics import catalogue
    from orchestrator.hardware import classify

    if overrides and name is None:
        raise Refusal("--set: expected the name of the workload whose setting it is")
    classes = classify(connection.this_machine())
    found = catalogue.one(name, overrides, classes) if name else catalogue.whole(classes)
    if form == "json":
        _say(json.dumps(catalogue.as_json(found), indent=2))
    else:
        show(catalogue.as_text(found, width()))


@main.command()
@click.argument("implementations", metavar="[IMPLEMENTATION]...", nargs=-1)
@click.option(
    "--set",
    "overrides",
    metavar="KEY=VALUE",
    multiple=True,
    help="A setting of image_rows, such as cell=gru (by default every cell); may be repeated.",
)
@click.option("--samples", type=click.IntRange(min=1), help="Compare on so many validation images.")
@click.option(
    "--tolerance",
    type=click.FloatRange(min=0, min_open=True),
    help="Largest relative difference allowed; by default as the precisions of both sides explain.",
)
@click.option(
    "--save", "into", metavar="DIR", type=click.Path(path_type=Path), help="Only save, into DIR."
)
@click.option(
    "--load",
    "source",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Only load what --save made, maybe on another machine, and compare.",
)
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text")
@refusing
def parity(
    implementations: tuple[str, ...],
    overrides: tuple[str, ...],
    samples: int | None,
    tolerance: float | None,
    into: Path | None,
    source: Path | None,
    form: str,
) -> int:
    """Check that weights move: saved by each IMPLEMENTATION, loaded by all others.

    Each implementation that can run on this machine's CPU and GPU (or those given) trains for a
    few steps, saves its weights and its outputs on validation data; then each loads what all have
    saved, and the largest relative differences of the outputs are told. Exit code 1 if one
    exceeds its tolerance. Nothing but this machine is used: --save here and --load there carry
    weights to another one.
    """
    from orchestrator.diagnostics import parity as checks

    signal.signal(signal.SIGTERM, signal.default_int_handler)  # trainers and files go, as on Ctrl-C
    if into is not None and source is not None:
        raise Refusal("expected --save or --load; received both: run the command twice")
    if samples is not None:
        overrides = (*overrides, f"validation_samples={samples}")
    question = checks.ask(implementations, overrides, checks.devices())

    def tell(line: str) -> None:
        show(f"{line}\n", err=True)

    if into is not None:
        found = checks.save(question, into, tell)
    elif source is not None:
        found = checks.load(question, source, tell, tolerance)
    else:
        found = checks.check(question, tell, tolerance)
    if form == "json":
        _say(json.dumps(checks.as_json(found), indent=2))
    else:
        show(checks.as_text(found, width()))
    return COMPLETE if found.is_good else WITH_FAILURES


@main.command()
@click.option("--port", type=click.IntRange(1, 65535), default=5000, show_default=True)
@click.option("--host", default="127.0.0.1", show_default=True)
@refusing
def ui(port: int, host: str) -> int:
    """Serve the MLflow UI on the store of this home."""
    from orchestrator.cli.ui import serve
    from orchestrator.storage.tracking import tracking_uri

    return serve(tracking_uri(sweep_home(), os.environ), sweep_home(), host=host, port=port)


def _say(text: str) -> None:
    show(f"{text}\n")
