"""`rnnsweep run`: a start of a sweep, from the announcement to the exit code."""

# ruff: noqa: PLC0415

from __future__ import annotations

import contextlib
import functools
import logging
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orchestrator.cli import exit_codes, options
from orchestrator.cli.command import command
from orchestrator.cli.messages import messages, show, show_progress, wants_colour
from orchestrator.cli.output import quiet as quiet_process
from orchestrator.cli.output import width
from orchestrator.storage.home import sweep_home

if TYPE_CHECKING:
    from orchestrator.cli.progress import PlainLines
    from orchestrator.core.start_command import StartCommand
    from orchestrator.planning.plan import Plan
    from orchestrator.scheduling.sweep import RunResult
    from orchestrator.spec import SweepSpec

_log = logging.getLogger("rnnsweep")

_QUICK_TRIALS = 10_000
"""After Ctrl-C, print the report at once only for sweeps up to this many trials (about 2 s)."""


@command(examples=["rnnsweep run quickstart.yaml --set search.configs=12"])
@options.start_options
@options.wait_quiet_option
@options.json_progress_option
@options.address_option
@options.new_file_option(
    "--prometheus", help="Also write the sign of life to this file, for Prometheus' node exporter."
)
@options.typed_as_option
def run(  # noqa: PLR0913, PLR0915, PLR0917  (its options)
    spec: Path,
    overrides: tuple[str, ...],
    address: str | None,
    yes: bool,
    quiet: bool,
    typed: StartCommand | None,
    wait_quiet_s: float | None,
    prometheus: Path | None,
    **flags: bool,
) -> int:
    """Run or resume the sweep of a SPEC file, then report on it."""
    from orchestrator.execution.workload_check import check_spec_file

    tell = None if quiet else show_progress  # before what takes seconds
    checked = check_spec_file(spec, overrides, on_cluster=address is not None, tell=tell)
    if not quiet:  # before imports that take seconds
        show(f"{checked.name}: loading Ray and MLflow takes 10 to 60 s\n", err=True)
    from orchestrator.cli.progress import WaitingLine, make_view
    from orchestrator.cli.ui import view_of
    from orchestrator.core.stop_signal import Stopped, StopSignal, exit_at_once
    from orchestrator.scheduling.sweep import RunOptions, run_checked_sweep
    from orchestrator.storage.home import SweepFolder
    from orchestrator.storage.tracking.trackers import tracking_uri

    home = sweep_home()
    store = tracking_uri(home, os.environ)
    folder = SweepFolder(home, checked.name)
    folder.make()
    log = folder.log
    typed = typed or options.start_command(
        "run", spec, overrides, address=address, prometheus=prometheus
    )
    resume = str(typed.with_flags("--retry-failed") if flags["retry_failed"] else typed)
    begun, form = False, messages()
    try:
        with quiet_process(log) as console, contextlib.ExitStack() as tidy:
            stopping = "Stopping: finished trials are kept; a second Ctrl-C stops at once."
            kept = f"Stopped at once; finished trials are kept. Resume with: {resume}"

            waiting = tidy.enter_context(WaitingLine(console, form))

            def inform(text: str, event: str = "phase", **facts: Any) -> None:
                _log.info("%s", text)
                waiting.clear()
                if not quiet or form.are_json:
                    console.print(form.line(text, event, **facts), soft_wrap=True)

            def confirm(plan: Plan, missing: int) -> None:
                text = _announcement(checked, plan, missing, store, log)
                inform(text, "plan", sweep=checked.name, missing=missing, **plan.as_json())
                trials = missing + plan.awaited_trials
                if trials > options.MANY_TRIALS and not yes and console.is_terminal:
                    with stop.at_once():
                        ask = functools.partial(console.input, markup=False)
                        options.expect_confirmation(f"Run {trials} trials?", ask)

            def view(plan: Plan) -> PlainLines:
                nonlocal begun
                begun = True
                return make_view(console, plan, form, quiet=quiet)

            with StopSignal(
                lambda: console.print(form.line(stopping), soft_wrap=True),
                lambda: exit_at_once(console.file.fileno(), f"{form.line(kept)}\n"),
            ) as stop:
                run_options = RunOptions(
                    home,
                    store,
                    address,
                    **flags,
                    wait_quiet_s=wait_quiet_s,
                    prometheus=prometheus,
                    start=typed,
                    phase=inform,
                    waiting=waiting.show,
                )
                ended = run_checked_sweep(
                    checked, run_options, stop=stop, view=view, confirm=confirm
                )
                _log.info("the sweep is %s", ended.record.state)
        code = _report_end(ended, resume, begun=begun or quiet)
        if ended.record.trials and not quiet:
            show(f"{view_of(ended.record, store)}\n", err=True)
        return code
    except Stopped:
        show(f"Stopped before a trial was started. Resume with: {resume}\n", err=True)
        return exit_codes.EXIT_STOPPED
    except Exception as error:  # noqa: BLE001  (a bug, whose exit code must be ours)
        return _report_error(error, log, resume if begun else None)


def _announcement(spec: SweepSpec, plan: Plan, missing: int, tracking_uri: str, log: Path) -> str:
    """Return what a person reads before a sweep starts."""
    from orchestrator.planning.description import describe_plan
    from orchestrator.storage.tracking.trackers import without_passwords

    lines = [describe_plan(spec, plan)]
    if missing < plan.trials:
        at_most = "at most " if plan.ending == "open" else ""
        lines.append(f"{plan.trials - missing} of {at_most}{plan.trials} trials are done")
    lines.append(
        f"trials are recorded in {without_passwords(tracking_uri)}; other output goes to {log}"
    )
    return "\n".join(lines)


def _report_end(ended: RunResult, resume: str, *, begun: bool) -> int:
    """Print how a start of a sweep ended, with its report; return the exit code."""
    from orchestrator.core.failures import describe_failures

    trials = ended.record.trials
    show("".join(f"Warning: {text}\n" for text in ended.warnings), err=True)
    if ended.refused:
        count = len(ended.refused)
        show(
            f"Warning: {count} finished trial{'s are' if count > 1 else ' is'} safe in the journal "
            "and not in the report, because MLflow does not take "
            f"{'them' if count > 1 else 'it'}: {next(iter(ended.refused.values()))}\n",
            err=True,
        )
    complete = sum(trial.status == "complete" for trial in trials)
    if not ended.stopped or 0 < complete <= _QUICK_TRIALS:
        show(_short_report(ended))
    if ended.stopped:
        done = len(trials)
        because = f", because {ended.stopped.reason}" if ended.stopped.reason else ""
        show(
            f"Stopped{because}: {done} of {ended.record.expected_trials} trials are done and "
            f"recorded. Resume with: {resume}\n",
            err=True,
        )
        return exit_codes.EXIT_STOPPED
    if not begun:
        show("All trials were done already; nothing was run.\n", err=True)
    if all(trial.status == "failed" for trial in trials):
        lines = describe_failures(trials)
        show("".join(f"{line}\n" for line in lines), err=True)
    if ended.refused:
        return exit_codes.WITH_FAILURES
    return exit_codes.code_of(trials)


def _short_report(ended: RunResult) -> str:
    from orchestrator.report.render import render, summarise

    summary = ended.summary or summarise(ended.record)
    return render(summary, "text", width=width(), colour=wants_colour())


def _report_error(error: Exception, log: Path, resume: str | None) -> int:
    """Print what ended a start of a sweep and, if a trial was started, how to `resume`."""
    error = exit_codes.as_refusal(error)
    if isinstance(error, exit_codes.REFUSALS):
        if resume is None:
            raise error
        show(f"Stopped: {error}\nResume with: {resume}\n", err=True)
        return exit_codes.EXIT_STOPPED
    code = exit_codes.internal_error(error, log)
    if resume is not None:
        show(f"Finished trials are kept. Resume with: {resume}\n", err=True)
    return code
