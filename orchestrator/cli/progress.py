"""Progress of a running sweep: a live view on a terminal, plain lines in logs and pipes."""

import logging
import time
from collections import Counter
from typing import Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.text import Text

from orchestrator.core.arms import Arm
from orchestrator.core.text import counted, duration
from orchestrator.core.trial import Outcome, Trial, config_text
from orchestrator.execution.job import JobProgress
from orchestrator.planning.plan import Plan
from orchestrator.scheduling.lane_queue import Assignment, at_work
from orchestrator.scheduling.session import Watcher

_log = logging.getLogger("rnnsweep")
_REFRESH_PER_S = 1  # more would be work on the machine that is being measured
_FIGURES = {"step_ms": "ms/step", "val_accuracy": "val_accuracy", "train_s": "s training"}


class PlainLines(Watcher):
    """A view for logs and pipes: one line for each trial that ends.

    A logger, `rnnsweep`, gets every line, and the output of trainers that failed.
    """

    failures_only = False
    """Print the lines of failed trials only."""

    def __init__(self, console: Console, plan: Plan) -> None:
        self._console, self._plan = console, plan
        self.ended: Counter[Arm] = Counter()
        self.failed: Counter[Arm] = Counter()
        self._per_block = Counter[int]()
        self._per_arm = Counter[tuple[int, Arm]]()
        self._pruned = set[int]()
        self._seen: set[str] = set()
        self._begun_blocks: set[int] = set()
        self._stopped: set[Arm] = set()
        self._shown: set[str] = set()
        self._ended_now = 0
        self._began_s = time.monotonic()
        self.blocks_expected = plan.blocks
        """The expected number of blocks; an upper bound while blocks may be added."""
        self._is_open = plan.auto is not None

    @property
    def blocks_ended(self) -> int:
        """Blocks all of whose trials have an outcome, and pruned ones."""
        whole = (len(self._plan.possible) - len(self._stopped)) * self._plan.repeats
        return sum(n >= whole or block in self._pruned for block, n in self._per_block.items())

    @property
    def _trials_expected(self) -> int:
        return sum(map(self._expected, self._plan.arms))

    def _expected(self, arm: Arm) -> int:  # of a pruned block, the trials that ran
        ran = sum(self._per_arm[block, arm] for block in self._pruned)
        whole = (self.blocks_expected - len(self._pruned)) * self._plan.repeats + ran
        return self.ended[arm] if arm in self._stopped else whole

    @property
    def total(self) -> str:
        """The expected number of trials as text: `at most 360` while blocks may be added."""
        return f"{'at most ' if self._is_open else ''}{self._trials_expected}"

    def remaining(self) -> str | None:
        """Return `about 5 min 0 s left` by the pace of this start; None before two trials ended."""
        if self._ended_now < 2:
            return None
        pace_s = (time.monotonic() - self._began_s) / self._ended_now
        remaining_s = pace_s * max(0, self._trials_expected - self.ended.total())
        return f"{'at most' if self._is_open else 'about'} {duration(remaining_s)} left"

    def _count(self, trial: Trial, outcome: Outcome) -> bool:
        """Count an outcome once; one that is no longer part of the plan does not count."""
        if not self._plan.includes(trial) or trial.key in self._seen:
            return False
        self._seen.add(trial.key)
        self._begun_blocks.add(trial.block)
        self.ended[trial.arm] += 1
        self._per_block[trial.block] += 1
        self._per_arm[trial.block, trial.arm] += 1
        if outcome.status == "pruned":
            self._pruned.add(trial.block)
        self.failed[trial.arm] += outcome.failure is not None
        return True

    def trial_restored(self, trial: Trial, outcome: Outcome) -> None:
        """Count a trial of an earlier start."""
        self._count(trial, outcome)

    def trial_assigned(self, assignment: Assignment) -> None:
        """Note that the block of a trial has begun."""
        self._begun_blocks.add(assignment.trial.block)

    def trial_finished(self, trial: Trial, outcome: Outcome) -> None:
        """Count a trial and print its line."""
        self._ended_now += self._count(trial, outcome)
        remaining = self.remaining()
        hardware = {arm.hardware for arm in self._plan.arms}
        arm = trial.arm.short_name if len(hardware) == 1 else str(trial.arm)
        line = (
            f"{self.ended.total()}/{self.total}  block {trial.block}  {arm}  "
            f"{config_text(trial.config)}  {describe_outcome(outcome)}"
            f"{f'  ({remaining})' if remaining else ''}"
        )
        self._print(line, silent=self.failures_only and outcome.failure is None)
        if outcome.failure is not None and outcome.failure.text not in self._shown:
            self._shown.add(outcome.failure.text)
            for call in outcome.failure.message.splitlines()[1:]:
                self._print(f"  {call}")
        if outcome.failure is not None and outcome.failure.output_tail:
            _log.info("its trainer's last output:\n%s", outcome.failure.output_tail)

    def arm_stopped(self, arm: Arm, reason: str) -> None:
        """Print that an arm is stopped, and expect no more trials of it."""
        if arm in self._plan.arms:
            self._stopped.add(arm)
        super().arm_stopped(arm, reason)

    def warn(self, text: str) -> None:
        """Print a warning."""
        self._print(f"Warning: {text}")

    def blocks_decided(self, blocks: int, reason: str) -> None:
        """Print that no more blocks are suggested; those that have begun are finished."""
        self.blocks_expected, self._is_open = len(self._begun_blocks), False
        self._print(f"enough after {counted(blocks, 'block')}: {reason}")

    def attempt_lost(self, assignment: Assignment) -> None:
        """Print that an attempt was lost."""
        self._print(
            f"block {assignment.trial.block}  {assignment.trial.arm}: "
            f"attempt {assignment.attempt} was lost with its worker; retrying"
        )

    def _print(self, text: str, *, silent: bool = False) -> None:
        _log.info("%s", text)
        if not silent:
            self._console.print(text, highlight=False, markup=False, soft_wrap=True)


class LiveView(PlainLines):
    """A view that is redrawn in place, for a terminal. Only failures get a line of their own."""

    failures_only = True

    def __init__(self, console: Console, plan: Plan) -> None:
        super().__init__(console, plan)
        self._running: dict[str, tuple[Assignment, JobProgress]] = {}
        columns = TextColumn("{task.description}", markup=False), BarColumn(20)
        failed = TextColumn("{task.fields[failed]}")
        self._bars = Progress(*columns, MofNCompleteColumn(), failed, console=console)
        self._tasks = {arm: self._bars.add_task(str(arm), failed="") for arm in plan.arms}
        self._live = Live(
            get_renderable=self.drawn,
            console=console,
            refresh_per_second=_REFRESH_PER_S,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def trial_assigned(self, assignment: Assignment) -> None:
        """Show the trial among those that run."""
        super().trial_assigned(assignment)
        self._running[assignment.trial.key] = (assignment, JobProgress(0))

    def job_progressed(self, assignment: Assignment, progress: JobProgress) -> None:
        """Show the progress of the trial or the round."""
        self._running[assignment.trial.key] = (assignment, progress)

    def trial_finished(self, trial: Trial, outcome: Outcome) -> None:
        """Count the trial; print its line if it failed."""
        is_pruned = outcome.status == "pruned"  # the trials of its block that wait do not run
        for key, (assignment, _) in list(self._running.items()):
            if key == trial.key or (is_pruned and assignment.trial.block == trial.block):
                del self._running[key]
        super().trial_finished(trial, outcome)

    def drawn(self) -> RenderableType:
        """Return the current view."""
        elapsed_s = time.monotonic() - self._began_s
        head = [
            f"{self.ended.total()} of {self.total} trials",
            f"{self.blocks_ended} of {self.blocks_expected} blocks",
            *([f"{len(self._pruned)} pruned"] if self._pruned else []),
            f"{60 * self._ended_now / max(elapsed_s, 1e-9):.1f} trials/min",
            f"{duration(elapsed_s)} gone",
            *filter(None, [self.remaining()]),
        ]
        for arm, task in self._tasks.items():
            failed, stopped = self.failed[arm], ", stopped" if arm in self._stopped else ""
            text = f"[red]{failed} failed{stopped}" if failed else ""
            total, ended = self._expected(arm), self.ended[arm]
            self._bars.update(task, total=total, completed=ended, failed=text)
        rows: list[RenderableType] = [Text(" · ".join(head)), self._bars.get_renderable()]
        out = list(self._running.values())
        running = at_work(assignment for assignment, _ in out)
        for assignment, progress in out:
            runs, text = assignment in running, str(assignment)
            if progress.done and progress.most is None:
                text += f"  epoch {progress.done} done"
            elif progress.done:
                text += f"  slice {progress.done} of at most {progress.most} done"
            text += "" if progress.interval is None else f", ± {100 * progress.interval:.2g} %"
            mark = "▸ now   " if runs else "  next  "
            rows.append(Text(mark + text, style="" if runs else "dim", no_wrap=True))
        return Group(*rows)


def make_view(console: Console, plan: Plan) -> PlainLines:
    """Return the live view on a terminal, plain lines elsewhere."""
    return LiveView(console, plan) if console.is_terminal else PlainLines(console, plan)


def describe_outcome(outcome: Outcome) -> str:
    """Return how a trial ended, in a few words."""
    if outcome.failure is not None:
        return f"FAILED ({outcome.failure.reason}): {outcome.failure.headline}"
    if outcome.status == "pruned":
        return f"pruned after {counted(len(outcome.epochs), 'epoch')}"
    if outcome.status != "complete":
        return outcome.status.replace("_", " ")
    metrics = outcome.metrics
    figures = [f"{metrics[name]:.3g} {unit}" for name, unit in _FIGURES.items() if name in metrics]
    return ", ".join(figures) or "complete"
