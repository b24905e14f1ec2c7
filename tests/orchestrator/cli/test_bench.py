"""`rnnsweep bench`, with real trainers of a workload that draws its times."""

import itertools
import json
import signal
from collections.abc import Generator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from orchestrator.analysis.summary import ReportSummary
from orchestrator.core.errors import Refusal
from orchestrator.core.trial import FailureRecord, Outcome
from orchestrator.diagnostics import bench as benches
from orchestrator.diagnostics import bench_document
from orchestrator.diagnostics.bench_schedule import Budget, Schedule
from orchestrator.execution import workload_check
from orchestrator.execution.job import JobProgress, TrialRun
from orchestrator.execution.round import RunningRound
from orchestrator.report.document import Document
from tests.orchestrator.cli.typed_commands import Run, read_events
from workloads.model_facts import Inspection, InspectionRequest, ModelFacts
from workloads.protocol import SliceDone

ARMS = ("none/base", "none/slow")
SLICING = "tests.workloads.examples.slicing"
DRAWN = ("--set", "settings.spread=0.02", "--set", "settings.slower={none/slow: 1.5}")


def bench(
    run: Run, *options: str, rounds: int = 6, function: str = "steady", cut: int = 0
) -> tuple[int, str, dict[str, Any]]:
    """Return its exit code, stdout, and what it exported; so many rounds at the end were `cut`."""
    written = ("--rounds", str(rounds), "--export-json", "bench.json", "--json-progress")
    command = ("bench", *ARMS, "--workload", f"{SLICING}:{function}", *DRAWN, *options, *written)
    code, out, err = run(*command)
    assert Path("bench.json").exists(), err
    exported = json.loads(Path("bench.json").read_text())
    events = read_events(err)
    first = next(event for event in events if event["event"] in ("estimate", "round"))
    assert first["event"] == "estimate" and first["seconds_left"] is None
    assert (first["rounds"], first["load_seconds"]) == (rounds, None)
    begun = [event for event in events if event["event"] == "round"]
    numbers = [*range(1, exported["sweep"]["blocks"] + cut + 1)]
    assert [event["round"] for event in begun] == numbers
    assert begun[0]["seconds_left"] is None
    assert all(event["seconds_left"] >= 0 for event in begun[1:])
    assert events[-1]["exit_code"] == code
    return code, out, exported


def speedup(exported: dict[str, Any]) -> dict[str, Any]:
    """Return how the second arm compares with the first one by the time of a step."""
    (found,) = [each for each in exported["contrasts"] if each["metric"] == "step_ms"]
    assert found["question"] == "baseline"
    return dict(found)


@pytest.mark.parametrize(("disturbed", "rounds"), [(1, 7), (1, 6), (6, 6)])
def test_rounds_give_a_verdict_that_can_be_exported(
    run: Run, monkeypatch: pytest.MonkeyPatch, disturbed: int, rounds: int
) -> None:
    is_busy = rounds - disturbed < 6
    as_run = TrialRun.outcome

    def observed(trial_run: TrialRun) -> Outcome:
        outcome, is_disturbed = as_run(trial_run), trial_run.trial.request.seed < disturbed
        others_pct = 80.0 if is_disturbed else 0.0
        return replace(outcome, metrics={**outcome.metrics, "others_cpu_pct": others_pct})

    monkeypatch.setattr(TrialRun, "outcome", observed)
    code, out, exported = bench(run, rounds=rounds)
    assert code == 0
    (row,) = [line for line in out.splitlines() if line.strip().startswith("none/slow  ")]
    assert "slower" in row and "0.6" in row
    base, slow = exported["arms"]
    assert (base["used"], slow["used"]) == (rounds, rounds)
    assert slow["kernels"][0]["ran"] == "slow"
    contrast = speedup(exported)
    assert contrast["estimate"]["value"] == pytest.approx(1 / 1.5, rel=0.02)
    assert contrast["verdict"] == "worse"
    counted = rounds if is_busy else rounds - disturbed
    assert (contrast["qualifier"], contrast["blocks"]) == ("busy" if is_busy else None, counted)


def test_an_arm_that_fails_is_named_and_the_others_are_timed(run: Run) -> None:
    code, _, exported = bench(run, "--set", "settings.of=none/slow", rounds=1, function="raises")
    base, slow = exported["arms"]
    assert code == 1
    (failed,) = exported["excluded"]
    assert "broke in a slice" in failed["message"]
    assert (base["used"], slow["used"]) == (1, 0)


@pytest.mark.parametrize("first", [0, 2])
def test_an_implementation_that_cannot_run_here_is_left_out(
    first: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    built = list[tuple[str, ...]]()

    def inspect(request: InspectionRequest) -> Inspection:
        built.append(request.implementations)
        return ModelFacts((), None, ())

    monkeypatch.setattr(workload_check, "_inspect", inspect)
    possible = ["tensorflow/portable", "tensorflow/portable+xla"]
    asked = [*possible[:first], "tensorflow/cudnn", *possible[first:]]
    timed = {"model": f"{SLICING}:steady"}
    made = benches.make_bench(asked, timed, (), "cpu", Budget(60.0, None))
    assert built == [tuple(possible)], "only what can run here is built"
    assert [arm.implementation for arm in made.plan.arms] == possible
    assert [arm.arm.implementation for arm in made.record().impossible] == ["tensorflow/cudnn"]
    for nothing_to_compare in (["tensorflow/cudnn"], ["tensorflow/portable", "tensorflow/cudnn"]):
        with pytest.raises(Refusal, match="tensorflow/cudnn on cpu"):
            benches.make_bench(nothing_to_compare, timed, (), "cpu", Budget(60.0, None))


def run_without_trainers(
    monkeypatch: pytest.MonkeyPatch, *, interrupted: int = 0, is_repeated: bool = False
) -> None:
    """Let rounds end at once. In the `interrupted` one, Ctrl-C comes between its two trials.

    A round that `is_repeated` has failed first, as trainers that do not fit into memory together.
    """
    begun = itertools.count(1)

    class InstantRound(RunningRound):
        def run(self) -> Generator[JobProgress, None, None]:
            if is_repeated:
                for trial_run in self.trial_runs:
                    trial_run.end(FailureRecord("out_of_memory", "too large together"))
                self._trials = self._make_trials()
            number, (base, slow) = next(begun), self.trial_runs
            for trial_run, seconds in ((base, 0.002), (slow, 0.003)):
                trial_run.slices.append(SliceDone(1, seconds))
                trial_run.end()
                if number == interrupted:
                    raise KeyboardInterrupt
            yield JobProgress(1)

    monkeypatch.setattr(benches, "RunningRound", InstantRound)


def test_whole_rounds_are_kept_on_ctrl_c(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    run_without_trainers(monkeypatch, interrupted=3)
    code, out, exported = bench(run, cut=1)
    assert "--rounds 6" in out
    estimate = speedup(exported)["estimate"]
    assert (code, exported["sweep"]["blocks"], estimate["high"]) == (3, 2, None)
    assert estimate["value"] == pytest.approx(1 / 1.5)


def test_trials_that_a_round_repeats_replace_those_that_failed(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_without_trainers(monkeypatch, is_repeated=True)
    code, _, exported = bench(run)
    assert (code, exported["excluded"]) == (0, [])
    assert [arm["used"] for arm in exported["arms"]] == [6, 6]


def test_rounds_that_ended_are_exported_when_ctrl_c_comes_after_the_last_one(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    as_document = bench_document.as_document

    def interrupted(summary: ReportSummary, ended: Schedule) -> Document:
        signal.raise_signal(signal.SIGINT)
        return as_document(summary, ended)

    run_without_trainers(monkeypatch)
    monkeypatch.setattr(bench_document, "as_document", interrupted)
    code, out, exported = bench(run)
    assert (code, exported["sweep"]["blocks"]) == (3, 6)
    assert "none/base: 1.5" in out


def test_the_time_ends_a_bench_before_its_number_of_rounds(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_without_trainers(monkeypatch)
    code, _, exported = bench(run, "--time", "0s")
    assert (code, exported["sweep"]["blocks"]) == (0, 3)


def test_no_round_follows_one_in_which_all_implementations_failed(run: Run) -> None:
    code, _, exported = bench(run, function="forgets")
    assert (code, exported["sweep"]["blocks"]) == (1, 1)
