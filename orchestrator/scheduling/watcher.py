"""The view of a running sweep: it counts trials, describes what happens, and logs it."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from orchestrator.analysis.statistics.formatting import number
from orchestrator.core.arms import Arm
from orchestrator.core.caller import as_typed
from orchestrator.core.criteria import ReportCriteria
from orchestrator.core.disturbance import disturbance_text
from orchestrator.core.records import Direction, SweepRecord
from orchestrator.core.text import counted, duration
from orchestrator.core.trial import FinishedTrial, Outcome, Trial, config_text
from orchestrator.planning.plan import Plan
from orchestrator.storage.tracking.reader import datasets

if TYPE_CHECKING:
    from orchestrator.execution.job import JobProgress
    from orchestrator.scheduling.lane_queue import Assignment

_log = logging.getLogger("rnnsweep")
_output_log = logging.getLogger("rnnsweep.output")
"""The last output of trainers that failed: `_log` has the failures."""
_FIGURES = {
    "step_ms": "ms/step",
    "predict_ms": "ms/prediction",
    "val_accuracy": "val_accuracy",
    "train_s": "s training",
}

_GROWTH = 1.2  # of the number of blocks between two looks at what leads: each reads all trials


@dataclass(frozen=True, slots=True)
class _RunningJob:
    """A job that runs: what it is `doing` (None before its first news), and since when (monotonic).

    `progress` says how far that is, and `done` counts the epochs of the arm that is ahead, or the
    turns.
    """

    assignment: Assignment
    doing: str | None
    since_s: float
    progress: str
    done: int = 0


class Watcher:
    """A view of a running sweep, and a context manager. This one writes to a logger, `rnnsweep`."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self.objectives: Mapping[str, Direction] = {}
        self.criteria = ReportCriteria()
        """The sweep's objectives and criteria, by which arms lead; set by who knows the spec."""
        self.ended: Counter[Arm] = Counter()
        self.failed: Counter[Arm] = Counter()
        self.pruned = set[int]()
        self.leads: list[str] = []
        self.blocks_expected = plan.blocks
        self._ended_by_block = dict[int, Counter[Arm]]()
        self._complete_blocks = set[int]()
        self._trials: dict[str, FinishedTrial] = {}
        self._begun_blocks: set[int] = set()
        self.stopped: set[Arm] = set()
        self.busy: str | None = None
        """What others took of the machine when the start looked; None if it was quiet."""
        self._disturbed_trials, self._last_disturbance = 0, ""
        self._shown: set[str] = set()
        self._jobs: dict[str, _RunningJob] = {}
        """By the key of its first trial. The mapping is replaced, not changed: threads read it."""
        self._rounds_in_this_start = self._ended_in_this_start = 0
        self._next_look = 2.0
        self._began_s = self._ended_s = time.monotonic()
        self._is_open = plan.ending == "open"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Close the view."""

    @property
    def blocks_ended(self) -> int:
        """Blocks all of whose trials have an outcome, and pruned ones."""
        return len(self._complete_blocks)

    def _has_all_trials(self, block: int) -> bool:
        """Return whether a block has an outcome on each arm that is not stopped, or is pruned."""
        expected = (len(self._plan.possible) - len(self.stopped)) * self._plan.repeats
        return block in self.pruned or self._ended_by_block[block].total() >= expected

    @property
    def trials_expected(self) -> int:
        """The expected number of trials; an upper bound while blocks may be added."""
        running = [arm for arm in self._plan.arms if arm not in self.stopped]
        unpruned = (self.blocks_expected - len(self.pruned)) * self._plan.repeats * len(running)
        pruned = sum(self._ended_by_block[block][arm] for block in self.pruned for arm in running)
        return unpruned + pruned + sum(self.ended[arm] for arm in self.stopped)

    @property
    def total(self) -> str:
        """The expected number of trials as text: `at most 360` while blocks may be added."""
        return f"{'at most ' if self._is_open else ''}{self.trials_expected}"

    def remaining_s(self) -> float | None:
        """Return the time left by the pace of this start; None before two rounds ended."""
        if self._rounds_in_this_start < 2:
            return None
        pace_s = (self._ended_s - self._began_s) / self._ended_in_this_start
        missing_s = pace_s * (self.trials_expected - self.ended.total())
        return max(0.0, missing_s - (time.monotonic() - self._ended_s))

    def remaining(self) -> str | None:
        """Return `about 5 min 0 s left`."""
        left_s = self.remaining_s()
        at_most = "at most" if self._is_open else "about"
        return None if left_s is None else f"{at_most} {duration(left_s)} left"

    def other_processes(self) -> str | None:
        """Return how other processes disturb the trials; before the first one what the start saw.

        None on a quiet machine.
        """
        if self._disturbed_trials:
            trials = counted(self.ended.total(), "trial")
            return (
                f"{self._disturbed_trials} of {trials} disturbed, "
                f"the last one: {self._last_disturbance}"
            )
        if self.busy is None or self._ended_in_this_start:
            return None
        return f"busy: {self.busy}"

    def totals(self) -> dict[str, float | None]:
        """Return the counts so far as data."""
        return {
            "trials_done": self.ended.total(),
            "trials": self.trials_expected,
            "blocks_done": self.blocks_ended,
            "blocks": self.blocks_expected,
            "at_most": self._is_open,
            "seconds_left": self.remaining_s(),
        }

    def round_assigned(self, assignment: Assignment) -> None:
        """Note that the block of a round has begun; the round may still wait for its node."""
        self._begun_blocks.add(assignment.block)

    def jobs_changed(self, running: Sequence[Assignment]) -> None:
        """Show that these jobs, and no others, can be running now."""
        now_s = time.monotonic()
        new = {job.key: _RunningJob(job, None, now_s, "starting") for job in running}
        self._jobs = {key: self._jobs.get(key, new[key]) for key in new}

    def job_progressed(self, assignment: Assignment, progress: JobProgress) -> None:
        """Show that a trial of a round finished an epoch, a round some turns, or what begins."""
        key, doing = assignment.key, progress.doing or "training"
        before, text = self._jobs.get(key), doing
        done = progress.done
        if before is not None and before.assignment == assignment:
            done = max(done, before.done)
        since_s = (
            before.since_s if before is not None and before.doing == doing else time.monotonic()
        )
        if progress.done:
            text = f"{counted(done, 'epoch')} done"
        if progress.done and progress.most is not None:
            text = f"turn {done} of at most {progress.most}"
        text += "" if progress.interval is None else f", ± {100 * progress.interval:.2g} %"
        self._jobs = {**self._jobs, key: _RunningJob(assignment, doing, since_s, text, done)}

    def running(self) -> list[str]:
        """Return what each running job does, and for how long."""
        now_s = time.monotonic()
        return [
            f"{job.progress}, {duration(now_s - job.since_s)}: {self._describe_job(job.assignment)}"
            for job in self._jobs.values()
        ]

    def round_finished(self, ended: Sequence[FinishedTrial]) -> None:
        """Count the trials of a round and show how each of them ended."""
        complete_before = self.blocks_ended
        new = sum(map(self._is_new, ended))
        self._rounds_in_this_start += new > 0
        self._ended_in_this_start += new
        self._ended_s = time.monotonic()
        for finished in ended:
            self._show_trial(finished)
        has_new_block = self.blocks_ended > complete_before
        if has_new_block and self.blocks_ended >= self._next_look:
            self._show_leads()

    def _show_trial(self, finished: FinishedTrial) -> None:
        """Count a trial and show how it ended."""
        trial, outcome = finished.trial, finished.outcome
        self.count_trial(trial, outcome)
        remaining = f"  ({text})" if (text := self.remaining()) else ""
        self.show_event(
            f"{self.ended.total()}/{self.total}  {self._describe_job(trial)}  "
            f"{describe_outcome(outcome, self.objectives)}{remaining}",
            "trial" if outcome.failure is None else "failure",
            finished,
        )
        if outcome.failure is not None and outcome.failure.text not in self._shown:
            self._shown.add(outcome.failure.text)
            for call in outcome.failure.message.splitlines()[1:]:
                self.show_event(f"  {call}", "call")
        if outcome.failure is not None and outcome.failure.output_tail:
            _output_log.info("its trainer's last output:\n%s", outcome.failure.output_tail)

    def arm_stopped(self, arm: Arm, reason: str) -> None:
        """Show that the remaining trials of an arm are not run, and why."""
        expected = self.trials_expected
        self.stopped |= {arm} & {*self._plan.arms}
        has_others = self.trials_expected < expected
        self._complete_blocks |= set(filter(self._has_all_trials, self._ended_by_block))
        retry = as_typed("--retry-failed", "retry_failed=True")
        if has_others:
            self.warn(f"{reason}. Its other trials are skipped. After a fix, {retry} runs them")
        else:
            self.warn(f"{reason}. After a fix, {retry} runs the failed trials again")

    def warn(self, text: str) -> None:
        """Show a warning."""
        self.show_event(f"Warning: {text}", "warning")

    def blocks_decided(self, blocks: int, reason: str) -> None:
        """Show that no more blocks are needed; those that have begun are finished."""
        self.blocks_expected, self._is_open = len(self._begun_blocks), False
        self.show_event(f"no more configs after {counted(blocks, 'block')}: {reason}", "message")

    def attempt_lost(self, assignment: Assignment) -> None:
        """Show that an attempt was lost with its worker, and that the round is retried."""
        attempt = f"attempt {assignment.attempt} was lost with its worker; retrying"
        self.show_event(f"{self._describe_job(assignment)}: {attempt}", "warning")

    def show_event(self, text: str, event: str, trial: FinishedTrial | None = None) -> None:
        """Show an event: a trial, failure or its calls, warning, message, or what leads or runs."""
        _log.log(logging.WARNING if event == "warning" else logging.INFO, "%s", text)

    def count_trial(self, trial: Trial, outcome: Outcome) -> None:
        """Count an outcome once, also of an earlier start; one not of the plan does not count."""
        finished = FinishedTrial(trial, outcome)
        if not self._is_new(finished):
            return
        self._trials[trial.key] = finished
        self._begun_blocks.add(trial.block)
        self.ended[trial.arm] += 1
        self._ended_by_block.setdefault(trial.block, Counter())[trial.arm] += 1
        if outcome.status == "pruned":
            self.pruned.add(trial.block)
        if self._has_all_trials(trial.block):
            self._complete_blocks.add(trial.block)
        self.failed[trial.arm] += outcome.failure is not None
        if disturbance := disturbance_text(outcome.disturbance):
            self._disturbed_trials += 1
            self._last_disturbance = disturbance

    def _is_new(self, finished: FinishedTrial) -> bool:
        """Return whether a trial is one of the plan's and has not been counted."""
        return self._plan.includes(finished.trial) and finished.key not in self._trials

    def _describe_job(self, job: Assignment | Trial) -> str:
        """Return `block 3  python/a  units=8`."""
        first, *others = [job] if isinstance(job, Trial) else job.trials
        name = f"{1 + len(others)} arms in turns" if others else self._arm_name(first.arm)
        return f"block {first.block}  {name}  {config_text(first.config)}"

    def _arm_name(self, arm: Arm) -> str:
        """Return an arm's name, with its hardware if the arms use several."""
        hardware = {planned.hardware for planned in self._plan.arms}
        return arm.short_name if len(hardware) == 1 else str(arm)

    def _show_leads(self) -> None:
        """Show which arms lead so far."""
        from orchestrator.scheduling.leads import leading_facts  # noqa: PLC0415  (SciPy)

        self._next_look = max(self.blocks_ended + 1, _GROWTH * self.blocks_ended)
        trials = tuple(self._trials.values())
        record = SweepRecord(
            "",
            arms=self._plan.arms,
            current=tuple(arm for arm in self._plan.arms if arm not in self.stopped),
            trials=trials,
            objectives=self.objectives,
            criteria=self.criteria,
            datasets=datasets(trials),
        )
        facts = leading_facts(record, self._arm_name)
        self.leads = [f"{fact.label} so far  {fact.text}" for fact in facts]
        for text in self.leads:
            self.show_event(text, "lead")


def describe_outcome(outcome: Outcome, objectives: Collection[str] = ()) -> str:
    """Return how a trial ended, in a few words, with its values of the objectives."""
    if outcome.failure is not None:
        return f"FAILED ({outcome.failure.reason}): {outcome.failure.headline}"
    if outcome.status == "pruned":
        return f"pruned after {counted(len(outcome.epochs), 'epoch')}"
    if outcome.status != "complete":
        return outcome.status.replace("_", " ")
    metrics = outcome.metrics
    named = {**_FIGURES, **{name: name for name in objectives if name not in _FIGURES}}
    figures = [f"{number(metrics[name])} {unit}" for name, unit in named.items() if name in metrics]
    disturbance = disturbance_text(outcome.disturbance)
    text = ", ".join(figures) or "complete"
    return f"{text}, disturbed: {disturbance}" if disturbance else text
