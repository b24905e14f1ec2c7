"""Reading a node around a trainer: whose CPU time it is, and the energy of the CPU packages."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from orchestrator.execution.telemetry.node_gauge import Neighbours, NodeGauge
from orchestrator.execution.telemetry.readings import NodeReading
from orchestrator.execution.telemetry.sensors import CpuClocks, Rapl

SPIN = "import time\nend = time.monotonic() + 60\nwhile time.monotonic() < end: pass"
REST = "import time; time.sleep(60)"


def read(pid: int) -> NodeReading:
    reading = NodeGauge(pid, Neighbours()).read()
    assert reading is not None
    return reading


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
        children: list[psutil.Process] = []
        deadline_s = time.monotonic() + 20
        while not children and time.monotonic() < deadline_s:
            children = psutil.Process(trainer.pid).children()
        gauge.look()
        assert gauge.family == {trainer.pid, *(child.pid for child in children)}
        time.sleep(0.3)
        reading = gauge.read()
        for child in children:
            child.kill()
        trainer.wait()
        after = gauge.read()
    assert reading is not None
    assert after is not None
    assert (reading.trainer_s or 0.0) > 0.02
    assert after.trainer_s is None  # it has ended: nobody knows


def test_cpus_that_the_trainer_may_not_use_are_not_its_business(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def times(*, percpu: bool = False) -> object:
        def cpu(user: float, idle: float) -> object:
            names = ("nice", "system", "irq", "softirq", "steal", "iowait")
            return SimpleNamespace(user=user, idle=idle, **dict.fromkeys(names, 0.5))

        return [cpu(1.0, 9.0), cpu(2.0, 8.0), cpu(3.0, 7.0)] if percpu else cpu(6.0, 24.0)

    monkeypatch.setattr(psutil, "cpu_times", times)
    monkeypatch.setattr(os, "cpu_count", lambda: 3)
    for cpus, seconds in (({0, 2}, (8.0, 1.0, 26.0)), ({0, 1, 2}, (8.0, 0.5, 33.0))):
        monkeypatch.setattr(os, "sched_getaffinity", lambda _, cpus=cpus: cpus)
        reading = read(os.getpid())
        assert (reading.busy_s, reading.steal_s, reading.total_s) == seconds


def test_the_hottest_sensor_of_the_cpu_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    cores = [SimpleNamespace(current=reading) for reading in (51.0, None, 63.5, 0.0)]
    for sensors, expected in (({"coretemp": cores, "nvme": cores[:1]}, 63.5), ({}, None)):
        monkeypatch.setattr(psutil, "sensors_temperatures", lambda s=sensors: s, raising=False)
        assert read(os.getpid()).temperature_c == expected


def test_other_trainers_count_while_they_are_at_work(tmp_path: Path) -> None:
    package = tmp_path / "workloads"
    package.mkdir()
    (package / "__init__.py").touch()  # a namespace would give way to the real one
    (package / "__main__.py").write_text(
        f"import sys\nif 'spin' in sys.argv:\n exec({SPIN!r})\n{REST}"
    )
    mine = [sys.executable, "-m", "workloads"]
    both = [subprocess.Popen([*mine, how], cwd=tmp_path) for how in ("spin", "rest")]
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
    assert "went away" in (rapl.reason or "")
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
