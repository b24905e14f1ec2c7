"""Four simulated GPUs of a node: a trial on each at once, and one that is lost."""

from dataclasses import replace
from pathlib import Path

import pytest

from orchestrator.hardware import probe
from tests.commands import wait_for
from tests.integration.sweeping import ROOT, Home
from tests.nvml.simulated import GPU_IS_LOST, SimulatedGpu, SimulatedNvml, library
from tests.workloads.shared_trainer import expect_package

NAME = "cards"
GPUS = [SimulatedGpu(power_w=100.0 * (card + 1)) for card in range(4)]


def statuses(home: Home) -> list[str]:
    return [trial["outcome"]["status"] for trial in home.finished(NAME)]


@pytest.mark.full
def test_four_gpus_work_at_once_and_a_lost_one_is_excluded(home: Home, tmp_path: Path) -> None:
    preloaded = {"LD_PRELOAD": str(library()), "RAY_LD_PRELOAD_ON_WORKERS": "1"}
    environ = SimulatedNvml(GPUS).environment(tmp_path) | preloaded
    work = {"workload": "tests.cluster.steady:train", "implementations": ["python/a"]}
    settings = {"epochs": 25, "gate": str(home.gate)}
    spec = home.spec(NAME, settings, **work, configs=12, hardware=["gpu"])
    with home.running("run", spec, **environ, RNNSWEEP_SIMULATED_CPUS="8") as command:
        at_work = [Path(f"{home.gate}.{card}") for card in range(4)]
        wait_for(lambda: all(path.exists() for path in at_work) or not command.running)
        lost = replace(GPUS[2], errors={"*": GPU_IS_LOST})
        SimulatedNvml([*GPUS[:2], lost, GPUS[3]]).write(tmp_path)
        wait_for(lambda: "failed" in statuses(home) or not command.running)
        home.gate.touch()
        done = command.done().expect(1)  # one trial failed
    home.expect_exactly_once(NAME, 12)
    outcomes = [trial["outcome"] for trial in home.finished(NAME)]
    starts = [outcome["started_s"] for outcome in outcomes]
    running = [
        [outcome for outcome in outcomes if outcome["started_s"] <= s < outcome["ended_s"]]
        for s in starts
    ]
    together = max(running, key=len)
    assert {outcome["environment"]["card"] for outcome in together} == {"0", "1", "2", "3"}
    cpus = {outcome["environment"]["trainer_cpus"] for outcome in together}
    assert cpus == {"0,1", "2,3", "4,5", "6,7"}
    (failed,) = (outcome for outcome in outcomes if outcome["status"] != "complete")
    assert (failed["failure"]["reason"], failed["environment"]["card"]) == ("lost", "2")
    for outcome in outcomes:
        card = outcome["environment"]["card"]
        assert outcome["started_s"] < failed["ended_s"] or card != "2"
        if outcome["status"] == "complete":
            watts = outcome["telemetry"]["curves"]["system/gpu_0_power_usage_watts"]
            assert set(watts) == {100.0 * (int(card) + 1)}, "the telemetry of its own card"
    assert done.err.count("is excluded") == 1


@pytest.mark.full
def test_gpus_that_the_frameworks_cannot_use_fail_no_trial(home: Home, tmp_path: Path) -> None:
    if probe().gpus:
        pytest.skip("there is a GPU here, and the framework may see it")
    h100 = SimulatedGpu(name="NVIDIA H100", compute_capability=(9, 0), memory_mib=81_559.0)
    environ = SimulatedNvml([h100]).environment(tmp_path)
    expect_package("torch")
    arms = ("arms.implementations=[torch/portable]", "baseline=torch/portable")
    quickly = [f"--set={one}" for one in ("search.configs=1", "settings.epochs=1", *arms)]
    spec = ROOT / "sweeps/quickstart.yaml"
    done = home.run("run", spec, *quickly, **environ).expect(0)
    assert "NVIDIA H100" in done.err, "NVML shows it"
    outcomes = [trial["outcome"]["status"] for trial in home.finished("quickstart")]
    assert outcomes == ["complete"], "on the arm of the CPU"
    report = home.report("quickstart")
    reasons = {one["arm"]["implementation"]: one["reason"] for one in report["impossible"]}
    assert "sees no GPU" in reasons["torch/portable"]
    assert "pip install" in reasons["torch/portable"]
    assert done.err.count("sees no GPU") == 1, "it is told once, when the sweep begins"
