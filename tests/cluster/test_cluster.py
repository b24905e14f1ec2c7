"""What a cluster does to a sweep: nodes unlike one another, lost, cut off, late; a laptop gone.

Each sweep is submitted from a host that is no part of the cluster. After each, every trial is in
MLflow exactly once.
"""

from __future__ import annotations

import json
import time

import pytest

from tests.cluster.lab import Lab, wait_for

pytestmark = pytest.mark.timeout(240)


def test_a_sweep_over_all_classes(lab: Lab) -> None:
    spec = lab.spec("classes", arms={"implementations": ["numpy/loop"], "hardware": ["cpu", "gpu"]})
    running = lab.submit(spec)
    assert running.wait(150) == 0, running.output
    assert "Speed-up" in running.output or "Sweep classes" in running.output
    runs = lab.expect_exactly_once("classes", trials=12)
    where = {(run["tags"]["hardware"], run["tags"]["node"]) for run in runs}
    assert sorted(node for _, node in where) == ["gpu", "gpu", "steady"]
    assert {run["tags"]["outcome"] for run in runs} == {"complete"}
    report = json.loads(lab.rnnsweep("report", "classes", "--format", "json").expect().out)
    assert report["sweep"]["state"] == "complete"


def test_a_killed_worker_and_one_that_joins_late(lab: Lab) -> None:
    spec = lab.spec("killed", settings={"epochs": 20, "rest_s": 0.1})
    lab.submit(spec, "--detach").wait(60)
    wait_for(lambda: lab.finished("killed"), 90, "trial ended")
    lab.worker("late", cpus=[0])
    lab.switch.hosts["steady"].remove()
    lab.wait_until_ended("killed", 150)
    runs = lab.expect_exactly_once("killed", trials=8)
    assert "late" in {run["tags"]["node"] for run in runs}


def test_a_worker_cut_off_for_20_s_and_a_laptop_gone(lab: Lab) -> None:
    spec = lab.spec("cut", settings={"epochs": 20, "rest_s": 0.1})
    lab.submit(spec, "--detach").wait(60)
    wait_for(lambda: lab.finished("cut"), 90, "trial ended")
    lab.laptop.remove()
    lab.switch.hosts["late"].pull_the_cable()
    time.sleep(20)
    lab.switch.hosts["late"].plug_the_cable()
    lab.wait_until_ended("cut", 150)
    lab.expect_exactly_once("cut", trials=8)
