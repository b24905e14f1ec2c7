"""`rnnsweep plan`: what a spec would run, where, and for how long."""

# ruff: noqa: PLC0415

import contextlib
import dataclasses
import os
from pathlib import Path

import click

from orchestrator.cli import options
from orchestrator.cli.command import command
from orchestrator.cli.messages import show
from orchestrator.cli.output import write
from orchestrator.storage.home import sweep_home


@command(
    examples=["rnnsweep plan quickstart.yaml --set search.configs=12"],
    notes="A spec that `rnnsweep run` would refuse is refused with the same message.",
)
@options.spec_argument
@options.spec_set_option
@options.address_option
@options.same_code_option
@click.option(
    "--nodes",
    "fleets",
    multiple=True,
    metavar="FLEET",
    help=(
        "Predict the rest of the sweep on these nodes too, such as '4 x NVIDIA T4, 8 x lab.json'"
        " (a class with measured trials, or a file of hardware --format json); may be repeated."
    ),
)
@options.json_option
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
    from orchestrator.execution.workload_check import check_spec_file
    from orchestrator.hardware import classify
    from orchestrator.planning.description import describe_plan
    from orchestrator.planning.lanes import make_lanes
    from orchestrator.planning.objectives import open_limit
    from orchestrator.planning.plan import make_plan
    from orchestrator.scheduling.forecast import Forecaster
    from orchestrator.scheduling.forecast_text import describe_forecast
    from orchestrator.scheduling.remaining import remaining_work
    from orchestrator.scheduling.runnable import expect_runnable
    from orchestrator.storage import resume
    from orchestrator.storage.home import SweepFolder
    from orchestrator.storage.tracking.trackers import tracking_uri

    checked = check_spec_file(spec, overrides, on_cluster=address is not None)
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
        write({**head, **made.as_json(), **opening, **rest})
    else:
        stopped = [f"  {work.failures.describe(arm)}" for arm in work.failures.stopped]
        show(f"{describe_plan(checked, made, expected.waits, stopped)}\n")
    if not fleets:
        expect_runnable(checked, work.plan)
    if form != "json" and work.plan.possible and not made.possible:
        show("every arm is stopped: nothing is left to run\n")
    elif form != "json":
        at_most = made.ending == "open" or checked.search.pruner is not None
        show(f"{describe_forecast(expected, others, at_most=at_most)}\n")
