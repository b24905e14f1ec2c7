"""Reading the node and the GPUs of a trial: a real process, simulated GPUs, files of sensors."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from orchestrator.execution.telemetry import (
    Instruments,
    OthersMeter,
    Recording,
    TelemetrySampler,
    TimeWindow,
    sensors,
)
from orchestrator.execution.telemetry import sampler as sampler_module
from orchestrator.execution.telemetry.gpu_gauge import GpuGauge
from orchestrator.execution.telemetry.node_gauge import Neighbours, NodeGauge
from orchestrator.execution.telemetry.readings import NodeReading
from orchestrator.execution.telemetry.sensors import CpuClocks, Rapl
from orchestrator.execution.telemetry.telemetry_summary import summarise_telemetry
from tests.commands import wait_for
from tests.nvml.simulated import (
    DRIVER_NOT_LOADED,
    GPU_IS_LOST,
    Refusal,
    SimulatedGpu,
    SimulatedNvml,
)
from workloads.protocol import Device, PhaseBegan, PhaseEnded

SPIN = "import time\nend = time.monotonic() + 60\nwhile time.monotonic() < end: pass"
REST = "import time; time.sleep(60)"


def write(folder: Path, **values: str | int) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, value in values.items():
        (folder / name).write_text(f"{value}\n")
    return folder


def test_clocks_are_measured_against_what_is_guaranteed(tmp_path: Path) -> None:
    assert CpuClocks([0, 1], tmp_path).share() is None
    assert CpuClocks([0, 1], tmp_path).throttled_s() is None
    write(tmp_path / "cpu0/cpufreq", base_frequency=2_000_000, scaling_cur_freq=800_000)
    write(tmp_path / "cpu1/acpi_cppc", nominal_freq=2000)
    write(tmp_path / "cpu1/cpufreq", scaling_cur_freq=1_500_000)
    write(tmp_path / "cpu1/thermal_throttle", package_throttle_total_time_ms=1250)
    clocks = CpuClocks([0, 1], tmp_path)
    assert clocks.share() == 0.75, "an idle CPU's clock does not count"
    assert clocks.throttled_s() == 1.25
    write(tmp_path / "cpu1/cpufreq", scaling_cur_freq="<unknown>")
    assert clocks.share() == 0.4
    assert CpuClocks([0], tmp_path).throttled_s() is None


def test_what_the_trainer_started_is_the_trainers() -> None:
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {SPIN!r}])"
    with subprocess.Popen([sys.executable, "-c", parent]) as trainer:
        gauge = NodeGauge(trainer.pid, Neighbours())
        children = wait_for(psutil.Process(trainer.pid).children)
        gauge.look()
        assert gauge.family == {trainer.pid, *(child.pid for child in children)}
        reading = wait_for(lambda: (now := gauge.read()) and (now.trainer_s or 0.0) > 0.02 and now)
        for child in children:
            child.kill()
        trainer.wait()
        after = gauge.read()
    assert reading is not None
    assert after is not None
    assert after.trainer_s is None  # it has ended: nobody knows


def test_only_the_cpus_that_the_trainer_may_use_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    def times(*, percpu: bool = False) -> object:
        def cpu(user: float, idle: float) -> object:
            names = ("nice", "system", "irq", "softirq", "steal", "iowait")
            return SimpleNamespace(user=user, idle=idle, **dict.fromkeys(names, 0.5))

        return [cpu(1.0, 9.0), cpu(2.0, 8.0), cpu(3.0, 7.0)] if percpu else cpu(6.0, 24.0)

    cores = [SimpleNamespace(current=reading) for reading in (51.0, None, 63.5, 0.0)]
    monkeypatch.setattr(psutil, "sensors_temperatures", dict, raising=False)
    monkeypatch.setattr(psutil, "cpu_times", times)
    monkeypatch.setattr(os, "cpu_count", lambda: 3)
    for cpus, seconds in (({0, 2}, (8.0, 1.0, 26.0)), ({0, 1, 2}, (8.0, 0.5, 33.0))):
        monkeypatch.setattr(os, "sched_getaffinity", lambda _, cpus=cpus: cpus)
        reading = NodeGauge(os.getpid(), Neighbours()).read()
        assert reading is not None
        assert (reading.busy_s, reading.steal_s, reading.total_s) == seconds
        assert reading.temperature_c is None
    sensors = {"coretemp": cores, "nvme": cores[:1]}
    monkeypatch.setattr(psutil, "sensors_temperatures", lambda: sensors)
    hottest = NodeGauge(os.getpid(), Neighbours()).read()
    assert hottest is not None and hottest.temperature_c == 63.5


def test_other_trainers_count_while_they_are_at_work(tmp_path: Path) -> None:
    package = tmp_path / "workloads"
    package.mkdir()
    (package / "__init__.py").touch()  # a namespace would give way to the real one
    (package / "__main__.py").write_text(
        f"import sys\nif 'spin' in sys.argv:\n exec({SPIN!r})\n{REST}"
    )
    mine, path = [sys.executable, "-P", "-m", "workloads"], {"PYTHONPATH": str(tmp_path)}
    both = [subprocess.Popen([*mine, how], env=os.environ | path) for how in ("spin", "rest")]
    try:
        time.sleep(0.3)
        neighbours = Neighbours()
        assert neighbours.at_work() is None
        due_s, with_one = time.monotonic() + 30, 0
        while not with_one and time.monotonic() < due_s:  # there may be others on this machine
            neighbours.look({both[1].pid})
            time.sleep(0.5)
            with_one = neighbours.at_work() or 0
        assert with_one >= 1
        neighbours.look({both[0].pid, both[1].pid})  # now they are the trainer's own
        assert neighbours.at_work() is not None
    finally:
        for process in both:
            process.kill()
            process.wait()


def zone(folder: Path, name: str, energy_uj: int) -> Path:
    return write(folder, name=name, energy_uj=energy_uj, max_energy_range_uj=1_000_000)


def test_the_packages_of_a_node_are_counted_together(tmp_path: Path) -> None:
    first = zone(tmp_path / "intel-rapl:0", "package-0", 900_000)
    second = zone(tmp_path / "intel-rapl:1", "package-1", 5)
    parts = {"intel-rapl:0:0": "core", "intel-rapl:2": "psys", "intel-rapl-mmio:0": "package-0"}
    for name, part in parts.items():
        zone(tmp_path / name, part, 77)
    rapl = Rapl(tmp_path)
    assert rapl.read_j() == 0.0
    write(first, energy_uj=100_000)  # it has started again at 0
    write(second, energy_uj=500_005)
    for name in parts:
        write(tmp_path / name, energy_uj=999_999)
    assert rapl.read_j() == pytest.approx(0.200001 + 0.5)
    (second / "energy_uj").unlink()
    assert rapl.read_j() is None
    assert "can no longer be read" in (rapl.reason or "")
    assert rapl.read_j() is None


def test_a_counter_that_may_not_be_read_has_a_reason(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert Rapl(tmp_path / "nowhere").read_j() is None
    assert "no energy counter" in (Rapl(tmp_path / "nowhere").reason or "")
    (zone(tmp_path / "intel-rapl:0", "package-0", 1) / "max_energy_range_uj").unlink()
    assert "no energy counter" in (Rapl(tmp_path).reason or "")
    read_text = Path.read_text

    def guarded(path: Path, *arguments: object) -> str:
        if path.name == "max_energy_range_uj":
            raise PermissionError(path)
        return read_text(path)

    monkeypatch.setattr(Path, "read_text", guarded)
    rapl = Rapl(tmp_path)
    assert rapl.read_j() is None
    assert rapl.reason == f"only root may read {tmp_path}/intel-rapl:0/energy_uj"


SAMPLER = "orchestrator.execution.telemetry.sampler"
REST_FOR_COST = sampler_module._REST
"""As it is outside of these tests, which hurry."""


@pytest.fixture
def pid() -> Iterator[int]:
    with subprocess.Popen(["sleep", "60"]) as process:
        yield process.pid
        process.kill()


@pytest.fixture(autouse=True)
def short_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("orchestrator.execution.telemetry.telemetry_summary.LEAST_S", 0.2)
    monkeypatch.setattr("orchestrator.execution.telemetry.telemetry_summary.LEAST_WINDOW_S", 0.1)
    monkeypatch.setattr("orchestrator.execution.telemetry.telemetry_summary.LEAST_LOAD_S", 0.1)
    for name, value in (("WHOLE_S", 0.1), ("COUNTER_S", 0.05), ("POWER_S", 0.05), ("REST", 1.0)):
        monkeypatch.setattr(f"{SAMPLER}._{name}", value)


Show = Callable[..., None]


@pytest.fixture
def show(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Show:
    def gpus_of(*gpus: SimulatedGpu, **errors: int) -> None:
        SimulatedNvml(gpus, errors).in_this_process(monkeypatch, tmp_path)

    return gpus_of


def sample(
    pid: int,
    device: Device = "gpu",
    *,
    seconds: float = 0.25,
    instruments: Instruments | None = None,
    other_pids: tuple[int, ...] = (),
) -> Recording:
    sampler = TelemetrySampler(device, pid, instruments or Instruments(), other_pids)
    sampler.start()
    _await_samples(sampler, 1)
    began_s = time.monotonic()
    sampler.note_event(PhaseBegan("train", began_s))
    time.sleep(seconds)
    _await_samples(sampler, 2)
    now_s = time.monotonic()
    sampler.note_event(PhaseEnded("train", now_s, now_s - began_s))
    time.sleep(0.1)
    return sampler.stop()


def _await_samples(sampler: TelemetrySampler, count: int) -> None:
    def whole() -> int:
        return sum(sample.node is not None for sample in sampler._samples.all())

    enough = whole() + count
    wait_for(lambda: whole() >= enough or not sampler._thread.is_alive(), every_s=0.01)


@pytest.mark.parametrize("other_pids", [(), (999_998,)])
def test_another_trainer_of_the_round_is_no_other_process_even_in_a_container(
    show: Show, pid: int, other_pids: tuple[int, ...]
) -> None:
    show(SimulatedGpu(processes=[(7, 900.0), (8, 900.0), (9, 1.0)]))  # numbers of another namespace
    _, telemetry = summarise_telemetry(sample(pid, other_pids=other_pids))
    assert telemetry.other_gpu_processes == (1 if other_pids else 2)


def test_the_highest_clock_is_kept_between_trials(show: Show) -> None:
    gauge, highest_mhz = GpuGauge(), []
    for uuid, now_mhz in (("GPU-a", 1_900.0), ("GPU-a", 1_000.0), ("GPU-b", 1_500.0)):
        show(SimulatedGpu(uuid=uuid, sm_clock_mhz=now_mhz))
        gauge.find()
        (reading,) = gauge.read(family=())
        gauge.release()
        highest_mhz.append(reading.highest_sm_clock_mhz)
    assert highest_mhz == [1_900.0, 1_900.0, 1_500.0]


def test_windows_of_training_count_once(pid: int) -> None:
    sampler = TelemetrySampler("cpu", pid, Instruments())
    for ended_s, seconds in ((3.0, 2.0), (4.0, 2.0), (9.0, 0.0), (8.0, 1.0), (4.5, 0.5)):
        sampler.note_event(PhaseEnded("train", ended_s, seconds))
    sampler.note_event(PhaseEnded("validate", 20.0, 5.0))
    assert sampler.stop().windows == [TimeWindow(1.0, 4.5), TimeWindow(7.0, 8.0)]


@pytest.mark.parametrize("call", ["nvmlInitWithFlags", "nvmlDeviceGetUUID"])
def test_a_gpu_that_cannot_be_found_has_a_reason_and_the_node_is_recorded(
    show: Show, pid: int, call: str
) -> None:
    show(SimulatedGpu(), **{call: DRIVER_NOT_LOADED})
    recording = sample(pid)
    metrics, telemetry = summarise_telemetry(recording)
    assert telemetry.energy_absent == recording.gpu_reason != ""
    assert "sm_clock_mhz" not in metrics
    assert {"trainer_cpu_pct", "others_cpu_pct"} <= set(metrics)


def test_a_gpu_that_is_lost_in_the_middle_has_a_reason_and_no_energy(show: Show, pid: int) -> None:
    show(SimulatedGpu(errors={"*": Refusal(GPU_IS_LOST, from_call=30)}))
    instruments = Instruments()
    metrics, telemetry = summarise_telemetry(sample(pid, seconds=0.8, instruments=instruments))
    assert "energy_j" not in metrics
    assert telemetry.energy_absent == "; ".join(
        f"GPU 0: nvmlDeviceGet{call}: GPU is lost"
        for call in ("PowerUsage", "TotalEnergyConsumption")
    )
    show(SimulatedGpu())  # after a reset, the next trial has it again
    metrics, telemetry = summarise_telemetry(sample(pid, instruments=instruments))
    assert "energy_j" in metrics


def test_a_driver_that_hangs_delays_no_trial(show: Show, pid: int) -> None:
    show(SimulatedGpu(errors={"nvmlDeviceGetTemperature": Refusal(-6_000)}))
    instruments = Instruments()
    in_use = instruments.gpus
    sampler = TelemetrySampler("gpu", pid, instruments)
    sampler.start()
    time.sleep(1.0)
    began_s = time.monotonic()
    recording = sampler.stop()
    assert time.monotonic() - began_s < 4.0
    assert instruments.gpus is not in_use
    assert recording.gpu_reason == "NVML did not answer within 0.5 s"
    assert summarise_telemetry(recording)[0] == {}


def test_a_fault_of_telemetry_ends_no_trial(monkeypatch: pytest.MonkeyPatch, pid: int) -> None:
    monkeypatch.setattr(psutil, "virtual_memory", lambda: 1 / 0)
    recording = sample(pid, "cpu")
    _, telemetry = summarise_telemetry(recording)
    assert telemetry.energy_absent == "telemetry failed: ZeroDivisionError: division by zero"


def test_sampling_takes_less_than_a_hundredth_of_a_core(
    monkeypatch: pytest.MonkeyPatch, pid: int
) -> None:
    class Costly(TelemetrySampler):
        samples = 0

        def _sample(self, node: NodeGauge, *, whole: bool) -> None:
            self.samples += 1
            until_s = time.thread_time() + 0.005
            while time.thread_time() < until_s:
                pass

    monkeypatch.setattr(sampler_module, "_REST", REST_FOR_COST)
    monkeypatch.setattr(Rapl, "read_j", lambda _: 1.0)  # so that energy is counted, often
    sampler = Costly("cpu", pid, Instruments())
    sampler.start()
    time.sleep(1.6)
    sampler.stop()
    assert 2 <= sampler.samples <= 5, "0.6 s of rest after each"


def test_a_reading_takes_at_most_a_five_hundredth_of_a_core(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = SimpleNamespace(now_s=1_000.0, cpu_s=0.0)
    fake = SimpleNamespace(monotonic=lambda: clock.now_s, thread_time=lambda: clock.cpu_s)
    monkeypatch.setattr(sensors, "time", fake)

    def read() -> float:
        clock.cpu_s += 0.01
        return float(clock.cpu_s)

    paced = sensors.Paced(read, every_s=1.0)
    for _ in range(100):  # seconds
        paced.value()
        clock.now_s += 1.0
    assert clock.cpu_s == pytest.approx(0.2, abs=0.011)


@pytest.mark.parametrize(
    ("busy_s", "steal_s", "trainer_s", "is_disturbed"),
    [
        (2.0, 0.0, 2.0, False),
        (2.5, 0.0, 1.8, True),  # others took 17 %
        (2.5, 0.0, 1.9, False),  # 15 %
        (2.5, 0.4, 2.2, True),  # the host is an other, too
        (1.9, 0.0, 2.0, False),  # counted a moment later
        (4.0, 0.0, None, False),  # the trainer has ended
    ],
)
def test_others_took_the_cpu_time_that_the_trainers_did_not(
    pid: int,
    monkeypatch: pytest.MonkeyPatch,
    busy_s: float,
    steal_s: float,
    trainer_s: float | None,
    is_disturbed: bool,
) -> None:
    began = NodeReading(100.0, 400.0, 5.0, 50.0, 1.0, 2.0)
    ended_s = None if trainer_s is None else 50.0 + trainer_s
    ended = NodeReading(100.0 + busy_s, 404.0, 5.0 + steal_s, ended_s, 1.0, 2.0)
    meter = OthersMeter([pid])
    readings = iter([began, ended])
    monkeypatch.setattr(NodeGauge, "read", lambda _: next(readings))
    meter.start()
    taken = meter.taken()
    assert (taken is not None and taken.certainly_exceeds(15.0)) == is_disturbed


def test_a_meter_counts_what_runs_beside_the_trainers(pid: int) -> None:
    meter = OthersMeter([pid])
    meter.start()
    until_s = time.process_time() + 0.3
    while time.process_time() < until_s:
        pass
    taken = meter.taken()
    assert taken is not None
    assert 0.25 < taken.others_s <= taken.total_s + 0.01  # rounded, on a busy machine
