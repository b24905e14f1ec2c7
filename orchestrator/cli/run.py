"""`rnnsweep run`: a start of a sweep as its user sees it, from announcement to exit code."""

# ruff: noqa: PLC0415

from __future__ import annotations

import contextlib
import os
import shlex
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator.cli.exit_codes import (
    COMPLETE,
    REFUSED,
    STOPPED,
    WITH_FAILURES,
    refusals,
    show,
    width,
)
from orchestrator.core.errors import Refusal
from orchestrator.storage.home import sweep_home

if TYPE_CHECKING:
    from rich.console import Console

    from orchestrator.cli.progress import PlainLines
    from orchestrator.core.records import SweepRecord
    from orchestrator.planning.plan import Plan
    from orchestrator.scheduling.finish import RunResult
    from orchestrator.spec import SweepSpec

_LARGE = 500
"""Trials beyond which a person at a terminal is asked before a sweep starts."""


@dataclass(frozen=True, slots=True)
class Choices:
    """How `run` was called; `again` is the command that goes on, if it is another one."""

    address: str | None = None
    fresh: bool = False
    retry_failed: bool = False
    yes: bool = False
    again: str | None = None


def start(spec: Path, overrides: tuple[str, ...], choices: Choices) -> int:
    """Run the sweep of a spec file, or what is missing of it, and print its report.

    Returns:
        The exit code.
    """
    from orchestrator.cli.output import quiet
    from orchestrator.cli.progress import make_view
    from orchestrator.cli.ui import view_of
    from orchestrator.core.stop_signal import Stopped, StopSignal
    from orchestrator.scheduling.sweep import RunOptions, run_sweep
    from orchestrator.spec import load
    from orchestrator.storage.home import SweepFolder
    from orchestrator.storage.tracking import tracking_uri

    loaded = load(spec, overrides)
    home = sweep_home()
    options = RunOptions(
        home,
        tracking_uri(home, os.environ),
        choices.address,
        choices.fresh,
        choices.retry_failed,
    )
    folder = SweepFolder(home, loaded.name)
    folder.make()
    log = folder.log
    again = choices.again or _again(spec, overrides, choices)
    begun = False
    try:
        with quiet(log) as console:

            def stopping() -> None:
                console.print("Stopping; a second Ctrl-C stops at once.")

            def confirm(plan: Plan, missing: int) -> None:
                console.print(_announcement(loaded, plan, missing, options.tracking_uri, log))
                if missing > _LARGE and not choices.yes and console.is_terminal:
                    with stop.at_once():
                        _expect_yes(console, missing)

            def view(plan: Plan) -> PlainLines:
                nonlocal begun
                begun = True
                return make_view(console, plan)

            with StopSignal(stopping) as stop:
                ended = run_sweep(loaded, options, stop=stop, view=view, confirm=confirm)
        code = _conclude(ended, loaded.baseline, again, begun=begun)
        if ended.record.trials:
            show(f"{view_of(ended.record, options.tracking_uri)}\n", err=True)
            show(_next_steps(ended.record), err=True)
        return code
    except Stopped:
        show(f"Stopped before a trial was started. To go on: {again}\n", err=True)
        return STOPPED
    except Exception as error:  # noqa: BLE001  (Python's exit code for it has a meaning here)
        return _explain(error, log, again if begun else None)


def _again(spec: Path, overrides: tuple[str, ...], choices: Choices) -> str:
    """The command that goes on with the sweep."""
    return shlex.join(
        ["rnnsweep", "run", str(spec)]
        + [word for each in overrides for word in ("--set", each)]
        + (["--address", choices.address] if choices.address else [])
        + (["--retry-failed"] if choices.retry_failed else [])
    )


def _announcement(spec: SweepSpec, plan: Plan, missing: int, tracking_uri: str, log: Path) -> str:
    """What a person reads before a sweep starts."""
    from orchestrator.planning.lanes import make_lanes
    from orchestrator.planning.open_blocks import describe_opening
    from orchestrator.planning.plan import describe_plan
    from orchestrator.planning.pricing import describe_prices
    from orchestrator.storage.tracking.address import shown

    lines, groups = [describe_plan(plan, spec.name)], make_lanes(plan)
    lines += describe_prices(spec.prices, (arm.hardware for arm in plan.arms))
    if len(groups) > 1 and (told := describe_opening(spec, plan, groups, {})):
        lines.append(told)
    if missing < plan.trials:
        at_most = "at most " if plan.auto else ""
        lines.append(f"{plan.trials - missing} of {at_most}{plan.trials} trials are done")
    lines.append(f"trials go to {shown(tracking_uri)}; other output to {log}")
    return "\n".join(lines)


def _conclude(ended: RunResult, baseline: str | None, again: str, *, begun: bool) -> int:
    """Print how a start of a sweep ended; the exit code."""
    from orchestrator.core.text import counted
    from orchestrator.report.render import render, summarise

    if ended.refused:
        count = len(ended.refused)
        show(
            f"Warning: {count} finished trial{'s are' if count > 1 else ' is'} safe in the journal "
            "and not in the report, because MLflow does not take "
            f"{'them' if count > 1 else 'it'}: {next(iter(ended.refused.values()))}\n",
            err=True,
        )
    if ended.stopped:
        done = len(ended.record.trials)
        because = f", because {ended.stopped.reason}" if ended.stopped.reason else ""
        show(
            f"Stopped{because}: {done} of {ended.record.expected_trials} trials are done and "
            f"recorded. To go on: {again}\n",
            err=True,
        )
        return STOPPED
    summary = summarise(ended.record, baseline, ended.curves)
    show(render(summary, "text", width=width()))
    failed = sum(trial.status == "failed" for trial in ended.record.trials)
    if not begun:
        show("Every trial had been done already; nothing was run.\n", err=True)
    if failed:
        show(
            f"{counted(failed, 'trial')} failed; the output of each is the artifact "
            "trainer_output.txt of its MLflow run. --retry-failed does them again.\n",
            err=True,
        )
    bad = failed + sum(trial.status == "wrong_kernel" for trial in ended.record.trials)
    return WITH_FAILURES if bad or ended.refused else COMPLETE


def _next_steps(record: SweepRecord) -> str:
    """What to do with the trials that there are now, as commands."""
    label = shlex.quote(f"{record.name}#{record.generation}")
    name = record.name if record.generation == 1 else label
    return (
        f"the report as a page: rnnsweep report {name} -o {record.name}.html\n"
        f"its trials as rows: rnnsweep query {name} --list\n"
    )


def _explain(error: Exception, log: Path, again: str | None) -> int:
    """Say what ended a start of a sweep and, once anything was run, how to go on (`again`)."""
    if isinstance(error, refusals()):
        if again is None:
            raise error
        show(f"Stopped: {error}\nTo go on: {again}\n", err=True)
        return STOPPED
    with contextlib.suppress(OSError), log.open("a", encoding="utf-8", errors="replace") as file:
        traceback.print_exception(error, file=file)
    text = " ".join(f"{type(error).__name__}: {error}".split())
    where = f"an unexpected error, {text} (its traceback is at the end of {log})"
    if again is None:
        show(f"Error: nothing was run, because of {where}\n", err=True)
        return REFUSED
    show(f"Stopped by {where}. To go on: {again}\n", err=True)
    return STOPPED


def _expect_yes(console: Console, missing: int) -> None:
    """Ask whether to run so many trials; anything but a yes declines."""
    try:
        answer = console.input(f"Run {missing} trials? [y/N] ", markup=False)
    except EOFError:
        answer = ""
    if answer.strip().lower() not in ("y", "yes"):
        raise Refusal("nothing was run: it was not confirmed (--yes runs it without asking)")
