"""Sweeps that a laptop submits to a cluster whose nodes are unlike, lost, cut off, and late."""

import importlib.util
import json
import time

from tests.cluster.lab import Lab


def test_a_sweep_is_detached_stopped_and_submitted_again(lab: Lab) -> None:
    settings = {"epochs": 20, "gate": "/root/gate"}  # for which trials on the GPU wait
    spec = lab.spec("classes", hardware=["cpu", "gpu"], settings=settings)
    followed = lab.submit(spec)
    lab.wait_for_a_trial("classes", "steady")
    lab.laptop.run("pkill", "-INT", "-f", "rnnsweep submit").expect()
    assert "continues without this terminal" in followed.done().expect(3).err
    assert "classes: running" in lab.at_a_distance("status").expect().out
    lab.at_a_distance("stop", "classes").expect()
    assert "classes: stopped, can be resumed" in lab.at_a_distance("status", "classes").out
    before = len(lab.finished("classes"))
    assert 0 < before < 12

    lab.switch.hosts["gpu"].write("/root/gate", "")
    resumed = lab.submit(spec).done().expect()
    assert f"{before} of 12 trials are done" in resumed.out + resumed.err
    runs = lab.expect_exactly_once("classes", trials=12)
    where = {(run["tags"]["hardware"], run["tags"]["node"]) for run in runs}
    assert sorted(node for _, node in where) == ["gpu", "gpu", "steady"]
    assert len({hardware for hardware, _ in where}) == 3


def test_a_report_compares_two_classes_of_cpu(lab: Lab) -> None:
    backend = "torch" if importlib.util.find_spec("torch") else "tensorflow"
    spec = lab.spec(
        "compared",
        workload="image_rows",
        settings={"dataset": "digits", "epochs": 1, "layers": 1},
        **dict.fromkeys(("sampler", "space", "objectives")),
        configs=[{"units": units} for units in (8, 16, 24)],
        implementations=[f"{backend}/portable"],
    )
    lab.submit(spec).done().expect()
    lab.expect_exactly_once("compared", trials=6)
    report = json.loads(lab.rnnsweep("report", "compared", "--format", "json").expect().out)
    assert report["sweep"]["environment"]["usable_cpus"] == "1 | 2"
    (contrast,) = (each for each in report["contrasts"] if each["metric"] == "step_ms")
    assert contrast["blocks"] == contrast["estimate"]["n"] == 3
    names = contrast["reference"], contrast["subject"]
    assert [name.rpartition(", ")[2] for name in names] == ["1 CPU", "2 CPUs"]


def test_a_worker_is_killed_another_joins_late_and_is_disconnected(lab: Lab) -> None:
    lab.submit(lab.spec("shaken", configs=5), "--detach").done().expect()
    lab.laptop.remove()
    lab.wait_for_a_trial("shaken", "steady")
    lab.switch.hosts["steady"].remove()  # SIGKILL to all of its processes
    late = lab.worker("late", cpus=[0])
    lab.wait_for_a_trial("shaken", "late")
    late.set_cable("down")
    time.sleep(20)
    late.set_cable("up")
    log = lab.expect_end("shaken")
    runs = lab.expect_exactly_once("shaken", trials=10)
    assert "was lost" in log
    assert {run["tags"]["node"] for run in runs} == {"steady", "late", "gpu"}
