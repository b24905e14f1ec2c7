"""Progress of a running sweep: a live view on a terminal, plain lines in logs and pipes."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from orchestrator.core.arms import Arm
from orchestrator.core.text import counted, duration
from orchestrator.core.trial import Config, Outcome, Trial
from orchestrator.planning.plan import Plan
from orchestrator.scheduling.lane_queue import Assignment
from orchestrator.scheduling.watcher import Watcher

_REFRESH_PER_S = 1  # more would be work on the machine that is being measured


@dataclass(slots=True)
class Tally:
    """Counts of the trials of a running sweep."""

    plan: Plan
    ended: Counter[Arm] = field(default_factory=Counter)
    failed: Counter[Arm] = field(default_factory=Counter)
    per_block: Counter[int] = field(default_factory=Counter)
    durations_s: list[float] = field(default_factory=list)
    seen: set[str] = field(default_factory=set)
    begun_blocks: set[int] = field(default_factory=set)
    final_blocks: int | None = None
    running: dict[str, tuple[Assignment, int]] = field(default_factory=dict)
    began_s: float = field(default_factory=time.monotonic)

    @property
    def trials_ended(self) -> int:
        """Trials that have an outcome, earlier starts included."""
        return self.ended.total()

    @property
    def blocks_ended(self) -> int:
        """Blocks all of whose trials have an outcome."""
        whole = len(self.plan.possible) * self.plan.repeats
        return sum(ended == whole for ended in self.per_block.values())

    @property
    def blocks_expected(self) -> int:
        """The expected number of blocks, or its upper bound."""
        return self.plan.blocks if self.final_blocks is None else self.final_blocks

    @property
    def trials_expected(self) -> int:
        """The expected number of trials, or its upper bound."""
        return self.blocks_expected * len(self.plan.possible) * self.plan.repeats

    @property
    def total(self) -> str:
        """The expected number of trials as text: `at most 360` while blocks may be added."""
        return f"at most {self.trials_expected}" if self.is_open else str(self.trials_expected)

    @property
    def is_open(self) -> bool:
        """True while the number of blocks is not decided."""
        return self.plan.auto is not None and self.final_blocks is None

    @property
    def bound(self) -> str:
        """The kind of estimate of the remaining time."""
        return "at most" if self.is_open else "about"

    @property
    def elapsed_s(self) -> float:
        """Seconds since this start began."""
        return time.monotonic() - self.began_s

    def count(self, trial: Trial, outcome: Outcome, *, now: bool = True) -> None:
        """Count an outcome; `now` is False for one of an earlier start.

        A trial counts once, even if it is re-run. Outcomes of an earlier start that are no longer
        part of the plan do not count.
        """
        self.running.pop(trial.key, None)
        if not self.plan.includes(trial) or trial.key in self.seen:
            return
        self.seen.add(trial.key)
        self.begun_blocks.add(trial.block)
        self.ended[trial.arm] += 1
        self.per_block[trial.block] += 1
        if now:
            self.durations_s.append(outcome.ended_s - outcome.started_s)
        if outcome.failure is not None:
            self.failed[trial.arm] += 1

    def remaining_s(self) -> float | None:
        """Estimated seconds left, from the pace of this start; None before two trials ended."""
        if len(self.durations_s) < 2:
            return None
        pace_s = self.elapsed_s / len(self.durations_s)
        return pace_s * max(0, self.trials_expected - self.trials_ended)


class PlainLines(Watcher):
    """A view for logs and pipes: one line for each trial that ends."""

    def __init__(self, console: Console, plan: Plan) -> None:
        self._console = console
        self.tally = Tally(plan)

    def trial_restored(self, trial: Trial, outcome: Outcome) -> None:
        """Count a trial of an earlier start."""
        self.tally.count(trial, outcome, now=False)

    def trial_assigned(self, assignment: Assignment) -> None:
        """Note that the block of a trial has begun."""
        self.tally.begun_blocks.add(assignment.trial.block)

    def trial_finished(self, trial: Trial, outcome: Outcome) -> None:
        """Print the line of a trial."""
        self.tally.count(trial, outcome)
        remaining_s = self.tally.remaining_s()
        estimate = f"  ({self.tally.bound} {duration(remaining_s)} left)" if remaining_s else ""
        self._print(
            f"{self.tally.trials_ended}/{self.tally.total}  block {trial.block}  "
            f"{self._arm_name(trial.arm)}  {describe_config(trial.config)}  "
            f"{describe_outcome(outcome)}{estimate}"
        )

    def _arm_name(self, arm: Arm) -> str:
        """Return the arm, without its hardware if the sweep has one hardware class only."""
        is_alone = len({other.hardware for other in self.tally.plan.arms}) == 1
        return arm.implementation if is_alone else str(arm)

    def warn(self, text: str) -> None:
        """Print a warning."""
        self._print(f"Warning: {text}")

    def blocks_decided(self, blocks: int, reason: str) -> None:
        """Print that no more blocks are suggested; those that have begun are finished."""
        self.tally.final_blocks = len(self.tally.begun_blocks)
        self._print(f"enough after {counted(blocks, 'block')}: {reason}")

    def _print(self, text: str) -> None:
        self._console.print(text, highlight=False, markup=False, soft_wrap=True)

    def attempt_lost(self, assignment: Assignment) -> None:
        """Print that an attempt was lost."""
        self._print(
            f"block {assignment.trial.block}  {assignment.trial.arm}: "
            f"attempt {assignment.attempt} was lost with its worker; retrying"
        )


class LiveView(PlainLines):
    """A view that is redrawn in place, for a terminal."""

    def __init__(self, console: Console, plan: Plan) -> None:
        super().__init__(console, plan)
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

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._live.stop()

    def trial_assigned(self, assignment: Assignment) -> None:
        """Show the trial among those that run."""
        super().trial_assigned(assignment)
        self.tally.running[assignment.trial.key] = (assignment, 0)

    def epoch_finished(self, assignment: Assignment, index: int) -> None:
        """Show the progress of the trial."""
        self.tally.running[assignment.trial.key] = (assignment, index + 1)

    def trial_finished(self, trial: Trial, outcome: Outcome) -> None:
        """Count the trial; failures also get a line of their own."""
        if outcome.failure is not None:
            super().trial_finished(trial, outcome)
        else:
            self.tally.count(trial, outcome)

    def drawn(self) -> RenderableType:
        """Return the current view."""
        tally, plan = self.tally, self.tally.plan
        remaining_s = tally.remaining_s()
        pace = len(tally.durations_s) / max(tally.elapsed_s, 1e-9)
        head = Text(
            f"{tally.trials_ended} of {tally.total} trials · {tally.blocks_ended} of "
            f"{tally.blocks_expected} blocks · {60 * pace:.1f} trials/min · "
            f"{duration(tally.elapsed_s)} gone"
            + (f" · {tally.bound} {duration(remaining_s)} left" if remaining_s is not None else "")
        )
        table = Table(box=None, pad_edge=False, padding=(0, 2))
        for column in ("arm", "", "ended", "failed"):
            table.add_column(column, justify="left" if column == "arm" else "right")
        per_arm = tally.blocks_expected * plan.repeats
        for arm in plan.arms:
            bar = ProgressBar(total=per_arm, completed=tally.ended[arm], width=20)
            failed = Text(str(tally.failed[arm]), style="red" if tally.failed[arm] else "dim")
            table.add_row(Text(str(arm)), bar, f"{tally.ended[arm]}/{per_arm}", failed)
        rows: list[RenderableType] = [head, table]
        busy: Counter[str] = Counter()
        for assignment, epochs in list(tally.running.values()):
            node = assignment.lane.node.id
            busy[node] += 1
            runs = busy[node] <= assignment.lane.room(assignment.device)
            epoch = f"  epoch {epochs} done" if epochs else ""
            arms = (
                f"{len(assignment.trials)} arms in turns"
                if assignment.others
                else str(assignment.trial.arm)
            )
            config = describe_config(assignment.trial.config)
            text = f"block {assignment.trial.block}  {arms}  {config}"
            mark = "▸ now   " if runs else "  next  "
            rows.append(Text(mark + text + epoch, style="" if runs else "dim", no_wrap=True))
        return Group(*rows)


def make_view(console: Console, plan: Plan) -> PlainLines:
    """Return the live view on a terminal, plain lines elsewhere."""
    return LiveView(console, plan) if console.is_terminal else PlainLines(console, plan)


def describe_config(config: Config) -> str:
    """Return a config in a few words: `units=32 layers=1`."""
    return " ".join(f"{name}={_short(value)}" for name, value in config.items())


def describe_outcome(outcome: Outcome) -> str:
    """Return how a trial ended, in a few words."""
    if outcome.failure is not None:
        return f"FAILED ({outcome.failure.reason}): {outcome.failure.message}"
    if outcome.status != "complete":
        return outcome.status.replace("_", " ")
    return _figures(outcome.metrics)


def _figures(metrics: Mapping[str, float]) -> str:
    shown = {"step_ms": "ms/step", "val_accuracy": "val_accuracy", "train_s": "s training"}
    figures = [f"{metrics[name]:.3g} {words}" for name, words in shown.items() if name in metrics]
    return ", ".join(figures) or "complete"


def _short(value: object) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)
