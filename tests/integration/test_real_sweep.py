"""A small real sweep (digits, TensorFlow, TPE): report, MLflow store and second start."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.commands import Done
from tests.integration.sweeping import PARENT, Home

NAME = "digits"
REAL: dict[str, Any] = yaml.safe_load(Path(__file__).with_name("real_sweep.yaml").read_text())


def test_a_small_real_sweep(tmp_path: Path) -> None:
    """One test, so that parallel workers do not run the sweep twice."""
    home = Home(tmp_path / "home")  # without a store before
    spec = home.spec(NAME, REAL["settings"], **REAL["spec"], **REAL["arms"])
    done = home.run("run", spec).expect(0)
    expect_only_the_report_is_on_stdout(home, spec, done)
    expect_mlflow_describes_the_sweep_and_each_trial(home)
    expect_the_report_agrees_with_the_store(home)
    expect_a_second_start_runs_and_changes_nothing(home, spec, done)


def expect_only_the_report_is_on_stdout(home: Home, spec: Path, done: Done) -> None:
    out, err = done.out, done.err
    assert out.startswith("digits · image_rows")
    assert "· 4 trials" in " ".join(out.split()) and " failed " not in out
    trust = " ".join(home.run("report", NAME, "--section", "trust").expect(0).out.split())
    assert "cuDNN kernels need an NVIDIA GPU" in trust
    assert "no node is of this class" in trust
    report = home.run("report", NAME).expect(0).out
    assert f"rnnsweep run {spec}" in " ".join(report.split())  # the start, as it was typed
    assert " ".join(out.split()) == " ".join(report.split())
    assert "1/4  block 0" in err and "4/4  block 1" in err
    assert str(home.sweep(NAME) / "run.log") in err
    for chatter in ("\x1b", "authentication", "oneDNN", "WARNING", "Creating initial MLflow"):
        assert chatter not in out + err
    home.expect_nothing_running()


def expect_mlflow_describes_the_sweep_and_each_trial(home: Home) -> None:
    home.expect_exactly_once(NAME, 4)
    (parent,) = home.parents(NAME)
    assert (parent.info.status, parent.data.tags["state"]) == ("FINISHED", "complete")
    assert yaml.safe_load(home.artifact(parent, "spec.yaml"))["arms"] == REAL["arms"]
    plan = json.loads(home.artifact(parent, "plan.json"))
    assert (len(plan["arms"]), len(plan["impossible"])) == (2, 4)
    assert "digits · " in home.artifact(parent, "report.md")
    (environment,) = json.loads(home.artifact(parent, "environments.json")).values()
    assert {"tensorflow", "keras"} <= environment.keys() & parent.data.params.keys()
    assert parent.data.metrics["trials"] == 4
    client = home.client()
    for run in home.children(NAME):
        assert run.data.tags[PARENT] == parent.info.run_id
        assert set(run.data.metrics) >= {*REAL["metrics"]}
        for curve in ("loss", "val_accuracy", "epoch_s"):
            points = client.get_metric_history(run.info.run_id, curve)
            assert {point.step for point in points} == {0, 1}
        system = client.get_metric_history(run.info.run_id, "system/cpu_utilization_percentage")
        assert len(system) >= 2
        assert all(0 <= point.value <= 100 for point in system)
        assert run.info.start_time <= system[0].timestamp <= run.info.end_time
        # Two epochs of digits are too short for energy, wherever it could be read.
        assert "energy_j" not in run.data.metrics
        assert {"kernel_evidence", "energy_absent", "neighbours"} <= set(run.data.tags)
    rounds: dict[str, list[Any]] = {}
    for run in home.children(NAME):
        rounds.setdefault(run.data.tags["round"], []).append(run)
    assert [len(runs) for runs in rounds.values()] == [2, 2]
    for runs in rounds.values():
        took_ms = max(run.info.end_time for run in runs) - min(run.info.start_time for run in runs)
        usd = sum(run.data.metrics["cost_usd"] for run in runs)
        assert usd == pytest.approx(1e-4 * took_ms / 1000, abs=1e-6)


def expect_the_report_agrees_with_the_store(home: Home) -> None:
    report = home.report(NAME)
    runs = {run.info.run_id: run.data for run in home.children(NAME)}
    assert {trial["run_id"] for trial in report["trials"]} == set(runs)
    for trial in report["trials"]:
        data = runs[trial["run_id"]]
        assert {name: data.metrics[name] for name in trial["metrics"]} == trial["metrics"]
        config = {name: data.params[name] for name in trial["config"]}
        assert {name: str(value) for name, value in trial["config"].items()} == config


def expect_a_second_start_runs_and_changes_nothing(home: Home, spec: Path, first: Done) -> None:
    def state() -> tuple[object, ...]:
        """Return what is stored."""
        runs = [run.to_dictionary() for run in home.children(NAME)]
        return home.journal(NAME), runs

    before = state()
    done = home.run("run", spec).expect(0)
    assert done.out == first.out
    assert "All trials were done already; nothing was run.\n" in done.err
    assert "rnnsweep ui" in done.err and "?viewStateShareKey=" in done.err
    assert state() == before and "Starting Ray" not in done.err
    assert len(home.parents(NAME)) == 1
    status = home.run("status", NAME).expect(0).out
    assert status.startswith(f"{NAME}: complete\n  4 of 4 trials ended (4 complete), 2 of 2 blocks")
