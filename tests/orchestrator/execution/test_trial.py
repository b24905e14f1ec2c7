"""One trial in a real trainer process, all its failures, and its telemetry, without Ray."""

import io
import os
import subprocess
import sys
import tarfile
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import psutil
import pytest

from orchestrator.core.trial import FailureRecord, Outcome, outcome_adapter, validated_json
from orchestrator.execution import trainer_pool, watchdog
from orchestrator.execution.job import RoundTrial, TrialLimits, TrialRun
from orchestrator.execution.round import RunningRound
from orchestrator.execution.telemetry import Instruments
from orchestrator.execution.trainer_pool import CpuClaims, CpusTaken, TrainerPool
from tests.building.jobs import build_job
from tests.nvml.simulated import SimulatedGpu, SimulatedNvml, Trend
from workloads.protocol import KernelProof, ProtocolError, Result, TrialRequest

USABLE = {"code": "metrics['usable_cpus'] = float(len(os.sched_getaffinity(0)))"}
COMPILES = "for _ in range(2):\n    with trial.phase('fill'): pass\n"
COMPILES += "with trial.phase('check'): pass\nwith trial.phase('compile'): pass\nnoop(trial)"
WORKS = "subprocess.run(['timeout', '5', 'sh', '-c', 'while :; do :; done'])"
LOUD = "for _ in range(40): os.write(2, b'x' * 10**6); time.sleep(0.05)\n"
LOUD += "raise RuntimeError('\\x1b[31m' + 'y' * 100_000)"


def round_of(trainers: TrainerPool, *arguments: Any, **options: Any) -> RunningRound:
    instruments = options.pop("instruments", None) or Instruments()
    model_path = options.pop("model_path", None)
    return RunningRound(build_job(*arguments, **options), trainers, instruments, model_path)


def run(trainers: TrainerPool, *arguments: Any, **options: Any) -> Outcome:
    running = round_of(trainers, *arguments, **options)
    list(running.run())
    return running.trial_runs[0].outcome()


def failure_of(*arguments: Any, **options: Any) -> FailureRecord:
    outcome = run(*arguments, **options)
    assert outcome.status == "failed" and outcome.failure is not None
    return outcome.failure


def test_trials_share_a_warm_trainer(trainers: TrainerPool) -> None:
    outcomes = [run(trainers, "noop") for _ in range(3)]
    assert [outcome.status for outcome in outcomes] == ["complete"] * 3
    assert [outcome.trainer_trials for outcome in outcomes] == [0, 1, 2]
    assert outcomes[0].metrics["step_ms"] == 1.0
    assert outcomes[0].epochs[0].metrics == {"loss": 0.0}
    assert outcomes[0].metrics["setup_s"] >= outcomes[1].metrics["setup_s"] >= 0
    assert {"rnnsweep", "ray", "cpu_model"} <= set(outcomes[0].environment)
    assert all(outcome.telemetry.was_recorded for outcome in outcomes), "the shortest ones, too"
    assert len(trainers.warm) == 1


def test_phases_before_the_first_epoch_are_shown(trainers: TrainerPool) -> None:
    signs = round_of(trainers, "runs", {"code": COMPILES}).run()
    shown = [sign.doing for sign in signs]
    check = "compiling, and comparing the mathematics"
    assert shown[:5] == ["running its code", "in its phase fill", check, "compiling", ""]


def test_a_pruned_trial_ends_after_an_epoch_and_its_trainer_stays_warm(
    trainers: TrainerPool,
) -> None:
    running = round_of(trainers, "echo_memory:run", {"epochs": 9_999})
    (trial_run,) = running.trial_runs
    for progress in running.run():
        if progress.doing:
            continue
        assert progress.metrics["accuracy"] == trial_run.epochs[-1].metrics["accuracy"]
        running.prune()
    outcome = trial_run.outcome()
    assert (outcome.status, len(outcome.epochs) < 9_999) == ("pruned", True)
    assert {"step_ms", "load_s", "peak_rss_mib"} <= set(outcome.metrics)
    assert not {"loss", "accuracy", "train_s"} & set(outcome.metrics)
    assert run(trainers, "noop").trainer_trials == 1


def test_a_kept_model_is_that_of_its_trial_and_whole(
    trainers: TrainerPool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def kept(settings: dict[str, Any]) -> tuple[list[tuple[str, int]], str]:
        running = round_of(trainers, "keeps_model", settings, model_path=tmp_path / "model")
        list(running.run())
        (trial_run,) = running.trial_runs
        message = trial_run.failure.message if trial_run.failure else ""
        if not (packed := trial_run.packed_model()):
            return [], message
        with tarfile.open(fileobj=io.BytesIO(packed)) as tar:
            return [(file.name, file.size) for file in tar if file.isfile()], message

    assert kept({"mib": 1}) == ([("./weights", 2**20)], "")
    assert kept({}) == ([], "")
    files, message = kept({"mib": 257})
    assert not files and "a model can have 256 MiB" in message
    monkeypatch.setattr(tarfile, "copyfileobj", mock.Mock(side_effect=OSError("shorter than was")))
    assert kept({"mib": 1}) == ([], "")


def test_idle_trainers_end_if_memory_is_short(
    trainers: TrainerPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for share, stay in ((0.75, {"one", "two"}), (0.85, {"one"})):
        run(trainers, "noop", implementation="two/noop")
        monkeypatch.setattr(trainer_pool, "memory_share", lambda share=share: share)
        run(trainers, "noop", implementation="one/noop")
        assert {backend for backend, _, _ in trainers.warm} == stay
    assert trainers.warm["one", "cpu", None].trials == 2


@pytest.mark.parametrize(("used_mib", "stay"), [(6_000, {"one", "two"}), (9_000, {"one"})])
def test_trainers_share_a_gpu_while_half_of_its_memory_is_free(
    trainers: TrainerPool,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    used_mib: float,
    stay: set[str],
) -> None:
    gpu = SimulatedGpu(memory_mib=16_000, memory_used_mib=used_mib)
    SimulatedNvml([gpu]).in_this_process(monkeypatch, tmp_path)
    for name in ("one", "two"):
        run(trainers, "noop", implementation=f"{name}/noop", device="gpu")
    pids = [(trainer.pid, 500.0) for trainer in trainers.warm.values()]
    SimulatedNvml([replace(gpu, processes=pids)]).write(tmp_path)
    trial: Any = {"settings": {"epochs": 300}, "implementation": "one/noop", "device": "gpu"}
    outcome = run(trainers, "echo_memory:run", **trial)
    assert {backend for backend, _, _ in trainers.warm} == stay
    assert outcome.telemetry.other_gpu_processes == 0
    assert ("peak_gpu_used_mib" in outcome.metrics) == (len(stay) == 1)


def test_a_trainer_that_died_or_grew_too_large_is_replaced(trainers: TrainerPool) -> None:
    limits = TrialLimits(60, 30, memory_mib=1000)
    assert run(trainers, "keeps_memory", {"mib": 100}, limits=limits).trainer_trials == 0
    assert run(trainers, "keeps_memory", {"mib": 600}, limits=limits).trainer_trials == 1
    assert run(trainers, "noop", limits=limits).trainer_trials == 0
    (trainer,) = trainers.warm.values()
    process = psutil.Process(trainer.pid)
    process.kill()
    psutil.wait_procs([process], timeout=60)
    outcome = run(trainers, "noop")
    assert (outcome.status, outcome.trainer_trials) == ("complete", 0)


@pytest.fixture
def claims() -> Iterator[list[CpuClaims]]:
    made = [CpuClaims(f"rnnsweep-test-{os.getpid()}", patience_s=0.0) for _ in range(5)]
    yield made
    for claimant in made:
        claimant.release()


def test_each_claimant_has_cpus_of_its_own(
    claims: list[CpuClaims], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2, 3, 8, 9, 10, 11})
    assert [claimant.claim(2) for claimant in claims[:4]] == [(0, 1), (2, 3), (8, 9), (10, 11)]
    with pytest.raises(CpusTaken, match=r"needs 2 free CPUs.* 8 CPUs"):
        claims[4].claim(2)
    claims[1].release()
    assert claims[4].claim(2) == claims[4].claim(2) == (2, 3)
    assert claims[4].claim(1) == (2,)
    with pytest.raises(CpusTaken):
        claims[0].claim(8)
    assert claims[1].claim(2) == (0, 1), "nothing is held after a failed claim"


def test_a_killed_claimants_cpus_are_free_again(claims: list[CpuClaims]) -> None:
    code = (
        "import os, sys; from orchestrator.execution.trainer_pool import CpuClaims;"
        f"claims = CpuClaims({claims[0].prefix!r}, cluster={claims[0].cluster});"
        "claims.claim(len(os.sched_getaffinity(0)));"
        "print('held', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(CpusTaken):
            claims[0].claim(1)
        holder.kill()
        holder.wait()
    assert len(claims[0].claim(1)) == 1


def test_cpus_that_another_cluster_holds_are_shared_if_there_are_no_others(
    claims: list[CpuClaims], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2})
    elsewhere, mine, mine_too, *_ = claims
    elsewhere.cluster = -1
    assert elsewhere.claim(2) == (0, 1)
    assert mine.claim(1) == (2,), "a free one is preferred"
    assert mine_too.claim(2) == (0, 1)
    with pytest.raises(CpusTaken):
        claims[3].claim(1)
    elsewhere.release()
    mine_too.release()
    assert mine_too.claim(2) == elsewhere.claim(2) == (0, 1)


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two CPUs")
def test_a_trainer_keeps_to_the_cpus_that_its_trial_may_use(
    claims: list[CpuClaims], trainers: TrainerPool
) -> None:
    mine, other, *_ = claims
    trainers.claims = mine
    taken, before = other.claim(1), os.sched_getaffinity(0)
    outcomes = [run(trainers, "runs", USABLE, cpus=1) for _ in range(2)]
    assert [outcome.metrics["usable_cpus"] for outcome in outcomes] == [1.0, 1.0]
    assert [outcome.trainer_trials for outcome in outcomes] == [0, 1]
    assert {outcome.environment["trainer_cpus"] for outcome in outcomes} != {str(taken[0])}
    whole = run(trainers, "runs", USABLE)
    assert whole.metrics["usable_cpus"] >= 2
    assert "trainer_cpus" not in whole.environment
    assert len(trainers.warm) == 2, "the confined trainer stays warm as well"
    trainers.close()
    other.claim(len(before))
    assert "needs 1 free CPU" in failure_of(trainers, "runs", USABLE, cpus=1).message
    assert os.sched_getaffinity(0) == before


def test_the_last_output_comes_with_the_failure(trainers: TrainerPool) -> None:
    run(trainers, "runs", {"code": "print('x' * 2**20)"})
    crashed = failure_of(trainers, "segfaults")
    assert "about to read address 0" in crashed.output_tail
    assert "xxxx" not in crashed.output_tail, "the output of the trial before"
    assert "ZeroDivisionError" in failure_of(trainers, "raises").output_tail


def test_a_trainer_whose_child_works_does_not_hang(trainers: TrainerPool) -> None:
    run(trainers, "noop")
    outcome = run(trainers, "runs", {"code": WORKS}, limits=TrialLimits(600.0, idle_s=3.0))
    assert outcome.status == "complete"


def test_processes_that_a_trial_leaves_end_with_it(trainers: TrainerPool, tmp_path: Path) -> None:
    run(trainers, "noop")
    outcome = run(trainers, "leaves_daemon", {"file": str(tmp_path / "pid")})
    assert (outcome.status, outcome.trainer_trials) == ("complete", 1)
    assert not psutil.pid_exists(int((tmp_path / "pid").read_text("ascii")))
    assert run(trainers, "noop").trainer_trials == 0


def test_a_loud_failure_fills_neither_terminal_nor_disk(trainers: TrainerPool) -> None:
    outcome = run(trainers, "runs", {"code": LOUD})
    assert outcome.failure is not None
    assert len(outcome.failure.message) < 17_000
    assert "Error: yy" in outcome.failure.message and "\x1b" not in outcome.failure.message
    assert len(outcome.artifacts["failure_message.txt"]) > 65_000
    (trainer,) = trainers.warm.values()
    assert os.fstat(trainer._output.fileno()).st_size < 20_000_000


def test_a_cgroups_limit_counts_as_memory(tmp_path: Path) -> None:
    everything = watchdog.memory_share(tmp_path)
    (tmp_path / "memory.max").write_text("1000\n")
    (tmp_path / "memory.current").write_text("990\n")
    (tmp_path / "memory.stat").write_text("anon 900\ninactive_file 10\n")
    assert watchdog.memory_share(tmp_path) == 0.98
    (tmp_path / "memory.max").write_text("max\n")
    assert watchdog.memory_share(tmp_path) == pytest.approx(everything, abs=0.05)


@pytest.mark.parametrize(
    ("code", "fault", "words"),
    [
        ("time.sleep(60)", ("_NODE_MEMORY_LIMIT", 0.0), "the node's memory"),
        ("os.kill(os.getpid(), 9)", ("oom_kills", iter((1, 2)).__next__), "out-of-memory killer"),
    ],
)
def test_a_node_without_memory_is_the_reason(
    trainers: TrainerPool,
    monkeypatch: pytest.MonkeyPatch,
    code: str,
    fault: tuple[str, Any],
    words: str,
) -> None:
    monkeypatch.setattr(watchdog, *fault)
    monkeypatch.setattr("orchestrator.execution.round.oom_kills", lambda: 0)
    failure = failure_of(trainers, "runs", {"code": code})
    assert failure.reason == "out_of_memory"
    assert words in failure.message


def test_a_failure_for_want_of_memory_names_the_size_of_the_model(
    trainers: TrainerPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watchdog, "oom_kills", iter((1, 2)).__next__)
    monkeypatch.setattr("orchestrator.execution.round.oom_kills", lambda: 0)
    code = "trial.model_built(2_100_000, 2**23); os.kill(os.getpid(), 9)"
    failure = failure_of(trainers, "runs", {"code": code})
    assert failure.reason == "out_of_memory"
    assert "2,100,000 parameters (8.0 MiB)" in failure.headline


def test_a_users_workload_on_a_gpu_has_energy_of_its_training_alone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, trainers: TrainerPool
) -> None:
    monkeypatch.setattr("orchestrator.execution.telemetry.telemetry_summary.LEAST_S", 0.05)
    monkeypatch.setattr("orchestrator.execution.telemetry.telemetry_summary.LEAST_WINDOW_S", 0.0005)
    monkeypatch.setattr("orchestrator.execution.telemetry.sampler._WHOLE_S", 0.1)
    # However late a busy machine lets the first sample be taken.
    monkeypatch.setattr("orchestrator.execution.telemetry.readings._BEYOND_S", 10.0)
    mine = SimulatedGpu(uuid="GPU-a", energy_j=Trend(1000.0, per_s=70.0))
    gpus = [mine, SimulatedGpu(uuid="GPU-b", power_w=300.0)]
    SimulatedNvml(gpus).in_this_process(monkeypatch, tmp_path)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    instruments, settings = Instruments(), {"units": 16, "epochs": 300}
    for _ in range(2):  # the second has NVML from the first
        of: Any = {"device": "gpu", "instruments": instruments}
        outcome = run(trainers, "echo_memory:run", settings, **of)
        train_s = outcome.metrics["train_s"]
        assert outcome.metrics["mean_power_w"] == pytest.approx(70.0, rel=0.05)
        assert outcome.metrics["energy_j"] == pytest.approx(70.0 * train_s, rel=0.05)
        assert outcome.telemetry.energy_scope in ("gpu", "gpu+cpu_package")
        curves = outcome.telemetry.curves
        assert set(curves["system/gpu_0_power_usage_watts"]) == {70.0}
        assert not [name for name in curves if "gpu_1" in name]
        assert outcome_adapter.validate_json(validated_json(outcome_adapter, outcome)) == outcome


def test_a_trial_that_is_taken_away_is_sampled_no_longer(trainers: TrainerPool) -> None:
    running = round_of(trainers, "echo_memory:run", {"epochs": 10_000})
    epochs = running.run()
    next(epochs)
    epochs.close()
    assert not running.trial_runs[0].ended
    assert "telemetry" not in {thread.name for thread in threading.enumerate()}


def test_a_trial_never_takes_the_events_of_another(trainers: TrainerPool) -> None:
    run(trainers, "noop")
    trainer = next(iter(trainers.warm.values()))
    trainer._events.put(Result({"loss": 666.0}))
    fresh = run(trainers, "noop")
    assert (fresh.metrics["loss"], fresh.trainer_trials) == (0.0, 0)


def test_a_proof_is_that_of_the_arm() -> None:
    job = build_job("noop")
    trial_run = TrialRun(job, RoundTrial(TrialRequest("synthetic", "torch/fused")))
    with pytest.raises(ProtocolError, match="'portable', but the trial runs torch/fused"):
        trial_run.note_event(KernelProof("portable", "portable", "of another trial"))
    trial_run.note_event(KernelProof("fused", "fused", "its own"))
    assert trial_run.kernel is not None


def test_a_clock_that_is_set_back_changes_no_duration(
    trainers: TrainerPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = round_of(trainers, "noop")
    readings = iter([2e9])  # then it is set back
    monkeypatch.setattr("time.time", lambda: next(readings, 1.0))
    list(running.run())
    outcome = running.trial_runs[0].outcome()
    assert outcome.ended_s > outcome.started_s > 1.0
    assert outcome.metrics["setup_s"] >= 0
