"""`rnnsweep plan`: what a spec would run, where, and for how long."""

# ruff: noqa: PLC0415

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from orchestrator.cli import options
from orchestrator.cli.command import command
from orchestrator.cli.messages import show, show_progress
from orchestrator.cli.output import write
from orchestrator.core.formats import Format
from orchestrator.core.text import counted, duration
from orchestrator.storage.home import sweep_home

if TYPE_CHECKING:
    from orchestrator.hardware import Look, Node, OtherProcesses
    from orchestrator.planning.plan import Plan
    from orchestrator.scheduling.remaining import RemainingWork
    from orchestrator.scheduling.time_left import FleetTimeLeft, Quartiles, TimeLeft
    from orchestrator.spec import SweepSpec

_MOST_NAMED = 3
"""Up to this many arms without a trial are named; more are counted."""

PLAN = Format("a plan", 5, id="rnnsweep-plan")


@command(
    examples=["rnnsweep plan quickstart", "rnnsweep plan mine.yaml --set search.configs=12"],
    notes=f"""
`plan` runs no trial. If `rnnsweep run` would refuse the spec, `plan` refuses it, with the same
message.
{options.SPEC_NOTES}""",
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
        "Also estimate the time on these nodes, such as '4 x NVIDIA T4, 8 x lab.json' (hardware"
        " classes, or files that rnnsweep hardware --format json wrote); may be repeated."
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
    from orchestrator.hardware import Look, classify

    look = None if address is not None else Look()  # its seconds pass meanwhile
    from orchestrator.cluster import connection
    from orchestrator.execution.workload_check import check_spec_file
    from orchestrator.planning.lanes import make_lanes
    from orchestrator.planning.objectives import open_limit
    from orchestrator.planning.plan import make_plan
    from orchestrator.scheduling.remaining import remaining_work
    from orchestrator.scheduling.time_left import estimate_fleets, estimate_time_left
    from orchestrator.storage import resume
    from orchestrator.storage.home import SweepFolder
    from orchestrator.storage.tracking.trackers import tracking_uri

    nodes = connection.this_machine()
    checked = check_spec_file(
        spec,
        overrides,
        on_cluster=address is not None,
        tell=show_progress,
        hardware=classify(nodes) if address is None and not fleets else None,
    )
    with contextlib.ExitStack() as stack:
        if address is not None:
            cluster = connection.connect(address, may_be_empty=checked.may_wait)
            nodes = stack.enter_context(cluster)
        made = make_plan(checked, classify(nodes), "to come" if address is not None else None)
        seen = _other_processes(look, nodes, made)
    folder = SweepFolder(sweep_home(), checked.name)
    store = tracking_uri(folder.home, os.environ)
    state = resume.preview(folder, checked, store, same_code=same_code)
    work = remaining_work(checked, made, state, retry_failed=False)
    made = work.running
    time_left = estimate_time_left(work, checked.prices)
    on_fleets = estimate_fleets(checked, state, fleets, nodes)
    if form == "json":
        pruner = checked.search.pruner.name if checked.search.pruner else None
        opening = {"open_blocks": open_limit(checked, made, make_lanes(made)), "pruner": pruner}
        rest = {**dataclasses.asdict(time_left), "fleets": list(map(dataclasses.asdict, on_fleets))}
        taken = {host: dataclasses.asdict(work) for host, work in seen().items()}
        write({**PLAN.head(), **made.as_json(), **opening, **rest, "other_work": taken})
    elif fleets or work.plan.possible or work.plan.awaited:
        show(_plan_text(checked, work))
    if not fleets:
        _expect_a_start(checked, work, on_cluster=address is not None)
    if form == "json":
        return
    if work.plan.possible and not made.possible:
        show("every arm was stopped, so nothing is left to run\n")
        return
    at_most = made.ending == "open" or checked.search.pruner is not None
    lines = [*_lines_here(time_left, at_most=at_most), *_lines_of_fleets(time_left, on_fleets)]
    show("".join(f"{line}\n" for line in lines))
    if work.missing or fleets:
        show(_busy_line(seen(), checked.disturbance_limits.others_cpu_pct))


def _plan_text(spec: SweepSpec, work: RemainingWork) -> str:
    """Return what runs and what cannot, with the arms that are stopped or replace the baseline."""
    from orchestrator.planning.description import describe_plan
    from orchestrator.scheduling.runnable import replaced_baseline

    notes = [
        *(work.failures.describe(arm) for arm in work.failures.stopped),
        *replaced_baseline(spec, work.plan),
    ]
    return f"{describe_plan(spec, work.running, [f'  {note}' for note in notes])}\n"


def _lines_here(left: TimeLeft, *, at_most: bool) -> Iterator[str]:
    """Yield how much is done, and how long the rest may take on the present nodes.

    With `at_most` a sweep may end with fewer trials (`configs: auto`, or a pruner).
    """
    if not left.remaining:
        trials = counted(left.done, "trial")
        yield f"all {trials} are done" if left.done else "nothing can run on the present nodes"
        return
    rest = f"{'at most ' if at_most else ''}{left.remaining}"
    if left.seconds is None:
        yield (
            f"{left.done} trials are done; {rest} are left. The time for them is known once each "
            "arm has completed a trial"
        )
        yield from _unmeasured(left)
        return
    yield f"{left.done} trials are done; {rest} are left, about {_time_range(left.seconds)}"
    if len(left.by_class) > 1:
        yield f"  {_times_of_classes(left)}"
    if left.usd is not None:
        yield f"  cost: {_usd_range(left.usd)} USD, for all nodes all of that time"
    yield "  median (quartiles) of each arm's own trials, without starting and reporting"


def _lines_of_fleets(here: TimeLeft, fleets: Sequence[FleetTimeLeft]) -> Iterator[str]:
    """Yield how long the rest may take on each fleet, compared with the present nodes."""
    for fleet in fleets:
        there = fleet.time_left
        if not there.remaining:
            yield f"with {fleet.name}: no trial is left"
        elif there.seconds is None:
            yield f"with {fleet.name}: known once each arm has completed a trial on such a node"
            yield from _unmeasured(there)
        else:
            instead = f" instead of {duration(here.seconds.median)}" if here.seconds else ""
            trials = counted(there.remaining, "trial")
            yield f"with {fleet.name}: {_time_range(there.seconds)}{instead} for {trials}"
            if len(there.by_class) > 1:
                yield f"  {_times_of_classes(there)}"
            if there.usd is not None:
                instead = f" instead of {here.usd.median:.3g}" if here.usd else ""
                yield f"  cost: {_usd_range(there.usd)} USD{instead}"
        for arm in fleet.lacking:
            yield f"  cannot run {arm}"


def _times_of_classes(left: TimeLeft) -> str:
    return "; ".join(f"{name}: {duration(time.median)}" for name, time in left.by_class.items())


def _unmeasured(left: TimeLeft) -> Iterator[str]:
    """Yield the first arms without a trial, and how many more there are; none if all are."""
    if not left.done:
        return
    for arm in left.unmeasured[:_MOST_NAMED]:
        yield f"  no complete trial of {arm}"
    if len(left.unmeasured) > _MOST_NAMED:
        yield f"  no complete trial of {len(left.unmeasured) - _MOST_NAMED} more arms"


def _time_range(time: Quartiles) -> str:
    """Return `5 min 0 s (4 min 30 s to 6 min 0 s)`."""
    return f"{duration(time.median)} ({duration(time.low)} to {duration(time.high)})"


def _usd_range(usd: Quartiles) -> str:
    return f"{usd.median:.3g} ({usd.low:.3g} to {usd.high:.3g})"


def _expect_a_start(spec: SweepSpec, work: RemainingWork, *, on_cluster: bool) -> None:
    """Refuse what a start would refuse: a spec that cannot run, or whose data are missing."""
    from orchestrator.scheduling.runnable import expect_runnable, refuse_missing_data

    expect_runnable(spec, work.plan)
    if work.missing and not on_cluster:
        refuse_missing_data(spec)


def _busy_line(seen: Mapping[str, OtherProcesses], limit_pct: float) -> str:
    """Return what others take of busy machines, and what a start does; empty if none is busy."""
    from orchestrator.cluster.busy_nodes import describe_busy

    busy = describe_busy(seen, limit_pct)
    if busy is None:
        return ""
    return f"busy: {busy}; rnnsweep run starts anyway (to wait: --wait-quiet 30m)\n"


def _other_processes(
    look: Look | None, nodes: Sequence[Node], made: Plan
) -> Callable[[], dict[str, OtherProcesses]]:
    """Return a function that returns what others take of the machines of the plan, by host name.

    It waits for the look at this machine. Without one the nodes of the connected cluster are looked
    at now.
    """
    from orchestrator.cluster.busy_nodes import observe_nodes

    if look is None:
        working = {node.id: node for arm in made.possible for node in arm.hardware.nodes}
        seen = observe_nodes([*working.values()]) if working else {}
        return lambda: seen

    def here() -> dict[str, OtherProcesses]:
        work = look.result()
        return {} if work is None else {nodes[0].profile.hostname: work}

    return here
