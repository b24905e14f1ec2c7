"""`rnnsweep run`: a start of a sweep, from the announcement to the exit code."""

# ruff: noqa: PLC0415

from __future__ import annotations

import logging
import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orchestrator.cli import exit_codes, options
from orchestrator.cli.command import command
from orchestrator.cli.messages import messages, show, show_progress, wants_colour
from orchestrator.cli.output import quiet as quiet_process
from orchestrator.cli.output import width
from orchestrator.core.text import counted
from orchestrator.storage.home import sweep_home

if TYPE_CHECKING:
    from orchestrator.cli.progress import PlainLines
    from orchestrator.core.start_command import StartCommand
    from orchestrator.planning.plan import Plan
    from orchestrator.scheduling.sweep import RunOptions, RunResult
    from orchestrator.spec import SweepSpec

_log = logging.getLogger("rnnsweep")

_QUICK_TRIALS = 10_000
"""After Ctrl-C, print the report at once only for sweeps up to this many trials (about 2 s)."""


@command(
    examples=["rnnsweep run quickstart", "rnnsweep run mine.yaml --set search.configs=12"],
    notes=options.SPEC_NOTES,
)
@options.start_options
@options.wait_quiet_option
@options.json_progress_option
@options.address_option
@options.typed_as_option
def run(  # noqa: PLR0913, PLR0917  (its options)
    spec: Path,
    overrides: tuple[str, ...],
    address: str | None,
    quiet: bool,
    typed: StartCommand | None,
    wait_quiet_s: float | None,
    fresh: bool,
    retry_failed: bool,
    same_code: bool,
    take_over: bool,
) -> int:
    """Run or resume the sweep of a SPEC, then report on it."""
    from orchestrator.cluster.connection import this_machine
    from orchestrator.execution.workload_check import check_spec_file
    from orchestrator.hardware import classify
    from orchestrator.storage.home import SweepFolder

    tell = None if quiet else show_progress  # before what takes seconds
    home = sweep_home()
    checked = check_spec_file(
        spec,
        overrides,
        on_cluster=address is not None,
        tell=tell,
        expect_free=lambda read: SweepFolder(home, read.name).expect_unlocked(),
        hardware=classify(this_machine()) if address is None else None,
    )
    if not quiet:  # before imports that take seconds
        show(f"{checked.name}: loading Ray and MLflow takes 10 to 60 s\n", err=True)
    from orchestrator.cli.ui import view_of
    from orchestrator.core.stop_signal import Stopped
    from orchestrator.scheduling.sweep import RunOptions
    from orchestrator.storage.tracking.trackers import tracking_uri

    typed = typed or options.start_command("run", spec, overrides, address=address)
    resume = str(typed.with_flags("--retry-failed") if retry_failed else typed)
    run_options = RunOptions(
        home,
        tracking_uri(home, os.environ),
        address,
        fresh=fresh,
        retry_failed=retry_failed,
        same_code=same_code,
        take_over=take_over,
        wait_quiet_s=wait_quiet_s,
        start=typed,
    )
    folder = SweepFolder(home, checked.name)
    folder.make()
    start = _AttendedStart(checked, run_options, folder.log, resume, quiet=quiet)
    try:
        ended = start.run()
        code = _report_end(ended, resume, begun=start.has_begun or quiet)
        if ended.record.trials and not quiet:
            show(f"{view_of(ended.record, run_options.tracking_uri)}\n", err=True)
        return code
    except Stopped:
        show(f"Stopped before a trial was started. Resume with: {resume}\n", err=True)
        return exit_codes.EXIT_STOPPED
    except Exception as error:  # noqa: BLE001  (a bug, whose exit code must be ours)
        return _report_error(error, folder.log, resume if start.has_begun else None)


class _AttendedStart:
    """A start of a sweep whose user is told what it does, and may stop it.

    Other output of this process goes to `log`. `resume` is the command that continues the sweep.
    `has_begun` is true as soon as trials may have been run.
    """

    def __init__(
        self,
        spec: SweepSpec,
        run_options: RunOptions,
        log: Path,
        resume: str,
        *,
        quiet: bool,
    ) -> None:
        self.has_begun = False
        self._spec, self._run_options, self._log_path, self._resume = spec, run_options, log, resume
        self._is_quiet = quiet
        self._form = messages()

    def run(self) -> RunResult:
        """Run the sweep; raise what `run_checked_sweep` raises."""
        from orchestrator.core.stop_signal import StopSignal
        from orchestrator.scheduling.sweep import run_checked_sweep

        with (
            quiet_process(self._log_path) as self._console,
            StopSignal(self._announce_stop, self._exit_at_once) as self._stop,
        ):
            ended = run_checked_sweep(
                self._spec,
                replace(self._run_options, phase=self._inform),
                stop=self._stop,
                view=self._begin_view,
                announce=self._announce_plan,
            )
            _log.info("the sweep is %s", ended.record.state)
            return ended

    def _inform(self, text: str, event: str = "phase", **facts: Any) -> None:
        """Log what begins now; print it too, unless the user wants quiet."""
        _log.info("%s", text)
        if not self._is_quiet or self._form.are_json:
            self._console.print(self._form.line(text, event, **facts), soft_wrap=True)

    def _announce_plan(self, plan: Plan, missing: int) -> None:
        """Show what is going to run."""
        text = _announcement(
            self._spec, plan, missing, self._run_options.tracking_uri, self._log_path
        )
        self._inform(text, "plan", sweep=self._spec.name, missing=missing, **plan.as_json())

    def _begin_view(self, plan: Plan) -> PlainLines:
        """Return the view of the trials, which begin now."""
        from orchestrator.cli.progress import make_view

        self.has_begun = True
        return make_view(self._console, plan, self._form, quiet=self._is_quiet)

    def _announce_stop(self) -> None:
        """Answer the first Ctrl-C."""
        text = "Stopping: finished trials are kept; a second Ctrl-C stops at once."
        self._console.print(self._form.line(text), soft_wrap=True)

    def _exit_at_once(self) -> None:
        """Answer the second Ctrl-C: end the process."""
        from orchestrator.core.stop_signal import exit_at_once

        text = f"Stopped at once; finished trials are kept. Resume with: {self._resume}"
        exit_at_once(self._console.file.fileno(), f"{self._form.line(text)}\n")


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
    from orchestrator.core.failure_limit import describe_failures

    trials = ended.record.trials
    show("".join(f"Warning: {text}\n" for text in ended.warnings), err=True)
    if ended.refused:
        count = len(ended.refused)
        show(
            f"Warning: the report lacks {counted(count, 'finished trial')}, which MLflow refused: "
            f"{next(iter(ended.refused.values()))}\n",
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
