"""One trial in a real trainer process, and all its failures, without Ray."""

from __future__ import annotations

import os
import platform
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from orchestrator.core.trial import FailureReason, Outcome, outcome_adapter, to_json
from orchestrator.execution import trainer_pool
from orchestrator.execution.actor import run_trial
from orchestrator.execution.cpu_claims import CpuClaims
from orchestrator.execution.job import Job, TrialLimits, TrialRun
from orchestrator.execution.trainer_pool import TrainerPool
from orchestrator.execution.trainer_process import Trainer
from orchestrator.execution.watchdog import memory_share
from workloads.implementations import parse_implementation
from workloads.protocol import TrialRequest

ROOT = Path(__file__).resolve().parents[3]
HOSTILE = "tests.workloads.examples.hostile"


@pytest.fixture
def free_claims() -> Iterator[Callable[[], CpuClaims]]:
    """Claims on this machine's CPUs that ignore other tests and sweeps."""
    made: list[CpuClaims] = []

    def make() -> CpuClaims:
        made.append(CpuClaims(prefix=f"rnnsweep-test-{os.getpid()}", patience_s=0.0))
        return made[-1]

    yield make
    for claims in made:
        claims.release()


def run(
    trainers: TrainerPool,
    name: str,
    settings: dict[str, Any] | None = None,
    *,
    implementation: str = "python/noop",
    limits: TrialLimits | None = None,
    fresh: bool = False,
    cpus: int | None = None,
    claims: CpuClaims | None = None,
) -> Outcome:
    request = TrialRequest(f"{HOSTILE}:{name}", implementation, settings or {})
    job = Job(request, 1, time.time(), limits or TrialLimits(60, 30), (str(ROOT),), fresh, cpus)
    trial_run = TrialRun(job)
    list(run_trial(job, trial_run, trainers, claims))
    return trial_run.outcome()


def test_trials_share_a_warm_trainer(trainers: TrainerPool) -> None:
    outcomes = [run(trainers, "noop") for _ in range(3)]
    assert [outcome.status for outcome in outcomes] == ["complete"] * 3
    assert [outcome.trainer_trials for outcome in outcomes] == [0, 1, 2]
    assert outcomes[0].metrics["step_ms"] == 1.0
    assert outcomes[0].epochs[0].metrics == {"loss": 0.0}
    assert outcomes[0].metrics["setup_s"] >= outcomes[1].metrics["setup_s"] >= 0
    assert {"rnnsweep", "ray", "cpu_model"} <= set(outcomes[0].environment)
    assert len(trainers) == 1


def test_idle_trainers_end_if_memory_is_short(
    trainers: TrainerPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for share, stay in ((0.75, {"one", "two"}), (0.85, {"one"})):
        run(trainers, "noop", implementation="two/noop")
        monkeypatch.setattr(trainer_pool, "memory_share", lambda share=share: share)
        run(trainers, "noop", implementation="one/noop")
        assert {backend for backend, _, _ in trainers} == stay
    assert trainers["one", "cpu", None].trials == 2


def test_a_fresh_trainer_is_the_only_one(trainers: TrainerPool) -> None:
    run(trainers, "noop", implementation="one/noop")
    held = trainers["one", "cpu", None].pid
    outcomes = [run(trainers, "noop", implementation="two/noop", fresh=True) for _ in range(2)]
    assert [outcome.trainer_trials for outcome in outcomes] == [0, 0]
    assert set(trainers) == {("two", "cpu", None)}
    assert not psutil.pid_exists(held)


@pytest.fixture
def two_cpus() -> Iterator[list[int]]:
    before = os.sched_getaffinity(0)
    if len(before) < 2:
        pytest.skip("needs two CPUs")
    yield sorted(before)[:2]
    assert os.sched_getaffinity(0) == before


def test_a_trainer_keeps_to_the_cpus_that_its_trial_may_use(
    trainers: TrainerPool, two_cpus: list[int], free_claims: Callable[[], CpuClaims]
) -> None:
    mine, other = free_claims(), free_claims()
    taken = other.take(1)
    outcomes = [run(trainers, "usable_cpus", cpus=1, claims=mine) for _ in range(2)]
    assert [outcome.metrics["usable_cpus"] for outcome in outcomes] == [1.0, 1.0]
    assert [outcome.trainer_trials for outcome in outcomes] == [0, 1]
    assert {outcome.environment["trainer_cpus"] for outcome in outcomes} != {str(taken[0])}
    whole = run(trainers, "usable_cpus", claims=mine)
    assert whole.metrics["usable_cpus"] >= 2
    assert "trainer_cpus" not in whole.environment
    assert len(trainers) == 2, "the confined trainer stays warm as well"


def test_a_trial_whose_cpus_are_taken_fails_with_the_reason(
    trainers: TrainerPool, two_cpus: list[int], free_claims: Callable[[], CpuClaims]
) -> None:
    other = free_claims()
    other.take(len(os.sched_getaffinity(0)))
    outcome = run(trainers, "usable_cpus", cpus=1, claims=free_claims())
    assert outcome.failure is not None
    assert "needs 1 CPU of its own" in outcome.failure.message


WARM, REPLACED = 1, 0
"""The earlier trials of the trainer that runs the next trial."""


@pytest.mark.parametrize(
    ("name", "settings", "limits", "reason", "words", "after"),
    [
        ("raises", {}, None, "error", "the workload broke", WARM),
        ("raises_in_phase", {}, None, "error", "broke while training", WARM),
        ("raises_odd_text", {}, None, "error", "is odd", WARM),
        ("exits", {}, None, "error", "SystemExit", WARM),
        ("interrupts", {}, None, "error", "interrupted", WARM),
        ("not_possible", {}, None, "not_possible", f"node {platform.node()}: ", WARM),
        ("no_data", {}, None, "data", f"node {platform.node()}: ", WARM),
        ("nan_epoch", {}, None, "non_finite", "nan", WARM),
        ("nan_result", {}, None, "non_finite", "inf", WARM),
        ("returns_nothing", {}, None, "error", "None", WARM),
        ("returns_words", {}, None, "error", "low", WARM),
        ("absent", {}, None, "bad_request", "absent", WARM),
        ("segfaults", {}, None, "crash", "SIGSEGV", REPLACED),
        ("crashes_with_child", {}, None, "crash", "SIGSEGV", REPLACED),
        ("dies", {"signal": "SIGKILL"}, None, "crash", "SIGKILL", REPLACED),
        ("leaves", {"status": 3}, None, "crash", "exit status 3", REPLACED),
        ("leaves", {"status": 0}, None, "crash", "exit status 0", REPLACED),
        ("spins", {}, TrialLimits(1.0, 0.6), "time_limit", "limits.trial_s", REPLACED),
        ("sleeps", {}, TrialLimits(600.0, 1.0), "hung", "limits.idle_s", REPLACED),
        ("sleeps_deaf", {}, TrialLimits(600.0, 1.0), "hung", "limits.idle_s", REPLACED),
        ("eats_memory", {"mib": 3000}, TrialLimits(60, 30, 600), "out_of_memory", "600", REPLACED),
    ],
)
def test_a_failure_has_its_reason_and_the_next_trial_a_trainer(
    trainers: TrainerPool,
    name: str,
    settings: dict[str, Any],
    limits: TrialLimits | None,
    reason: FailureReason,
    words: str,
    after: int,
) -> None:
    outcome = run(trainers, name, settings, limits=limits)
    assert outcome.failure is not None
    assert (outcome.status, outcome.failure.reason) == ("failed", reason)
    assert words in outcome.failure.message
    to_json(outcome_adapter, outcome)
    second = run(trainers, "noop")
    assert (second.status, second.trainer_trials) == ("complete", after)


def test_the_last_output_comes_with_the_failure(trainers: TrainerPool) -> None:
    run(trainers, "chatters", {"mib": 1})
    crashed = run(trainers, "segfaults")
    assert crashed.failure is not None
    assert "about to read address 0" in crashed.failure.output_tail
    assert "xxxx" not in crashed.failure.output_tail, "the output of the trial before"
    raised = run(trainers, "raises")
    assert raised.failure is not None
    assert "ZeroDivisionError" in raised.failure.output_tail


def test_a_trainer_whose_child_works_does_not_hang(trainers: TrainerPool) -> None:
    run(trainers, "noop")
    outcome = run(trainers, "child_works", {"seconds": 3}, limits=TrialLimits(600.0, idle_s=1.0))
    assert outcome.status == "complete"


def test_a_cgroups_limit_counts_as_memory(tmp_path: Path) -> None:
    everything = memory_share(tmp_path)
    (tmp_path / "memory.max").write_text("1000\n")
    (tmp_path / "memory.current").write_text("990\n")
    (tmp_path / "memory.stat").write_text("anon 900\ninactive_file 10\n")
    assert memory_share(tmp_path) == 0.98
    (tmp_path / "memory.max").write_text("max\n")
    assert memory_share(tmp_path) == pytest.approx(everything, abs=0.05)


def test_the_node_is_kept_below_the_share_at_which_ray_kills_actors(
    trainers: TrainerPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orchestrator.execution.watchdog._NODE_MEMORY_LIMIT", 0.0)
    outcome = run(trainers, "sleeps")
    assert outcome.failure is not None
    assert outcome.failure.reason == "out_of_memory"
    assert "node" in outcome.failure.message


def test_another_kernel_than_asked_is_marked(trainers: TrainerPool) -> None:
    outcome = run(trainers, "other_kernel", implementation="tensorflow_like/cudnn")
    assert outcome.status == "wrong_kernel"
    assert outcome.kernel is not None
    assert (outcome.kernel.asked, outcome.kernel.ran) == ("cudnn", "portable")


def test_texts_are_carried_and_the_last_of_a_name_counts(trainers: TrainerPool) -> None:
    outcome = run(
        trainers, "keeps_texts", {"texts": [["a.txt", "1"], ["b.md", "2"], ["a.txt", "3"]]}
    )
    assert outcome.artifacts == {"a.txt": "3", "b.md": "2"}
    assert run(trainers, "noop").artifacts == {}


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("hello", "hello"),
        ('{"event": "artifact", "name": "../a", "text": ""}', "expected a plain file name"),
    ],
)
def test_a_line_that_is_no_event_is_a_failure(
    trainers: TrainerPool, monkeypatch: pytest.MonkeyPatch, line: str, words: str
) -> None:
    program = f"import sys; sys.stdin.readline(); print({line!r}, flush=True); sys.stdin.read()"
    popen = subprocess.Popen

    def other_program(command: list[str], **options: Any) -> Any:
        return popen([sys.executable, "-c", program], **options)

    with monkeypatch.context() as patch:
        patch.setattr(subprocess, "Popen", other_program)
        outcome = run(trainers, "noop")
    assert outcome.failure is not None
    assert outcome.failure.reason == "protocol"
    assert words in outcome.failure.message
    assert run(trainers, "noop").status == "complete"


def test_a_trainer_that_died_between_two_trials_is_replaced(trainers: TrainerPool) -> None:
    run(trainers, "noop")
    (trainer,) = trainers.values()
    os.kill(trainer.pid, signal.SIGKILL)
    psutil.wait_procs([psutil.Process(trainer.pid)], timeout=5)
    outcome = run(trainers, "noop")
    assert (outcome.status, outcome.trainer_trials) == ("complete", 0)


def test_a_trainer_dies_with_its_holder() -> None:
    program = (
        "import os, time\n"
        "from orchestrator.execution.trainer_process import Trainer\n"
        "from workloads.implementations import parse_implementation\n"
        "print(Trainer(parse_implementation('a/b', known_only=False), 'cpu').pid, flush=True)\n"
        "time.sleep(60)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, cwd=ROOT
    ) as holder:
        assert holder.stdout is not None
        trainer = psutil.Process(int(holder.stdout.readline()))
        holder.kill()
    gone, _ = psutil.wait_procs([trainer], timeout=10)
    assert gone


def test_gpus_are_hidden_from_a_cpu_arm() -> None:
    environ = {"CUDA_VISIBLE_DEVICES": "0,1", "PATH": os.environ["PATH"]}
    with Trainer(parse_implementation("tensorflow/portable"), "cpu", environ=environ) as trainer:
        while not (seen := psutil.Process(trainer.pid).environ()):
            assert trainer.alive  # the kernel has not laid out its environment yet
        assert seen["CUDA_VISIBLE_DEVICES"] == "-1"


def test_a_warm_trainer_that_grew_too_large_is_replaced(trainers: TrainerPool) -> None:
    limits = TrialLimits(60, 30, memory_mib=4000)
    assert run(trainers, "keeps_memory", {"mib": 100}, limits=limits).trainer_trials == 0
    assert run(trainers, "keeps_memory", {"mib": 2100}, limits=limits).trainer_trials == 1
    assert run(trainers, "noop", limits=limits).trainer_trials == 0
