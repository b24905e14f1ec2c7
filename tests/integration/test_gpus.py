"""Four simulated GPUs of a node with a CPU arm: a trial on each at once, and one that is lost."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.commands import wait_for
from tests.integration.sweeping import Home
from tests.nvml.simulated import GPU_IS_LOST, SimulatedGpu, SimulatedNvml, library

NAME = "cards"
GPUS = [SimulatedGpu(power_w=100.0 * (card + 1)) for card in range(4)]


@pytest.mark.full
@pytest.mark.timeout(300)
def test_four_gpus_work_at_once_and_a_lost_one_is_excluded(home: Home, tmp_path: Path) -> None:
    preloaded = {"LD_PRELOAD": str(library()), "RAY_LD_PRELOAD_ON_WORKERS": "1"}
    environ = SimulatedNvml(GPUS).environment(tmp_path) | preloaded
    work = {"workload": "tests.cluster.steady:train", "implementations": ["python/a"]}
    hardware = ["gpu", {"class": "cpu", "settings": {"epochs": 2}}]
    settings = {"epochs": 25, "gate": str(home.gate)}
    spec = home.spec(NAME, settings, **work, configs=8, hardware=hardware)
    with home.running("run", spec, **environ, RNNSWEEP_SIMULATED_CPUS="8") as command:
        at_work = [Path(f"{home.gate}.{card}") for card in range(4)]
        wait_for(lambda: all(path.exists() for path in at_work) or not command.running, 120)
        lost = replace(GPUS[2], errors={"*": GPU_IS_LOST})
        SimulatedNvml([*GPUS[:2], lost, GPUS[3]]).write(tmp_path)
        done = command.done(180).expect(1)  # one trial failed
    home.expect_exactly_once(NAME, 16)
    everything = [trial["outcome"] for trial in home.finished(NAME)]
    on_cpu = [one for one in everything if one["environment"]["card"] == "-1"]
    assert [one["status"] for one in on_cpu] == ["complete"] * 8, "after the loss, too"
    outcomes = [one for one in everything if one not in on_cpu]
    starts = [one["started_s"] for one in outcomes]
    running = [[one for one in outcomes if one["started_s"] <= s < one["ended_s"]] for s in starts]
    together = max(running, key=len)
    assert {one["environment"]["card"] for one in together} == {"0", "1", "2", "3"}
    cpus = {one["environment"]["trainer_cpus"] for one in together}
    assert cpus == {"0,1", "2,3", "4,5", "6,7"}
    (failed,) = (one for one in outcomes if one["status"] != "complete")
    assert (failed["failure"]["reason"], failed["environment"]["card"]) == ("lost", "2")
    for one in outcomes:
        card = one["environment"]["card"]
        assert one["started_s"] < failed["ended_s"] or card != "2"
        if one["status"] == "complete":
            watts = one["telemetry"]["curves"]["system/gpu_0_power_usage_watts"]
            assert set(watts) == {100.0 * (int(card) + 1)}, "the telemetry of its own card"
    assert done.err.count("is excluded") == 1
