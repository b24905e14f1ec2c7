"""A small real sweep (digits, TensorFlow, TPE): report, MLflow store and second start."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.integration.sweeping import PARENT, Done, Home

NAME = "digits"
ARMS = {
    "implementations": ["tensorflow/portable", "tensorflow/portable+xla", "tensorflow/cudnn"],
    "hardware": ["cpu", "NVIDIA Imaginary"],
}
PARAMS = (
    *("units", "batch_size", "workload", "dataset", "cell", "backend", "kernel", "jit"),
    "precision",
)
TAGS = ("sweep", "block", "arm", "implementation", "hardware", "node", "trial_key", "outcome")
METRICS = (
    *("loss", "accuracy", "val_loss", "val_accuracy", "train_s", "step_ms", "samples_per_s"),
    *("load_s", "compile_s", "validate_s", "evaluate_s", "predict_s", "queue_s", "setup_s"),
    *("sample_us", "step_ms_median", "step_ms_p95", "predict_sample_ms", "model_flops_per_s"),
    *("peak_rss_mib", "trainer_cpu_pct", "others_cpu_pct", "steal_pct"),
    *("cost_usd", "train_cost_usd"),
)
PRICE = {"hardware": "cpu", "usd_per_hour": 0.36, "source": "a bill", "date": "2026-11-21"}


@dataclass(frozen=True)
class Real:
    """A finished sweep: its home (without a store before), its spec and the command's output."""

    home: Home
    spec: Path
    done: Done


def run_sweep(folder: Path) -> Real:
    home = Home(folder / "home")
    spec = home.spec(
        NAME,
        workload="image_rows",
        settings={
            "dataset": "digits",
            "samples": 500,
            "validation_samples": 100,
            "epochs": 2,
            "cell": "lstm",
            "layers": 1,
            "dropout": 0.0,
        },
        search={
            "sampler": "tpe",
            "space": {"units": {"low": 4, "high": 12, "log": True}, "batch_size": [32, 64]},
            "objectives": {"step_ms": "minimize"},
        },
        arms=ARMS,
        prices=[PRICE],
    )
    return Real(home, spec, home.run("run", spec).expect(0))


@pytest.mark.timeout(900)
def test_a_small_real_sweep(tmp_path: Path) -> None:
    """One test, so that parallel workers do not run the sweep twice."""
    real = run_sweep(tmp_path)
    expect_only_the_report_is_on_stdout(real)
    expect_mlflows_parent_run_describes_the_sweep(real)
    expect_mlflow_has_a_run_for_each_trial_with_the_documented_names(real)
    expect_the_arms_of_a_block_start_the_same(real)
    expect_the_report_agrees_with_the_store_number_by_number(real)
    expect_query_and_compare_read_the_same_trials(real, tmp_path)
    expect_a_second_start_runs_and_changes_nothing(real)


def expect_only_the_report_is_on_stdout(real: Real) -> None:
    out, err = real.done.out, real.done.err
    assert out.startswith("Sweep digits: image_rows")
    assert "4 complete of 4 expected; 0 failed" in out
    assert "cuDNN kernels need an NVIDIA GPU" in out
    assert "no node is of this class" in out
    assert out == real.home.run("report", NAME).expect(0).out
    assert "1/4  block 0" in err
    assert "4/4  block 1" in err
    assert "\x1b" not in out + err  # no terminal, no colours
    log = real.home.sweep(NAME) / "run.log"
    assert str(log) in err
    for chatter in ("authentication", "oneDNN", "WARNING", "Creating initial MLflow"):
        assert chatter not in out + err
    real.home.expect_nothing_running()


def expect_mlflows_parent_run_describes_the_sweep(real: Real) -> None:
    (parent,) = real.home.parents(NAME)
    assert (parent.info.status, parent.data.tags["state"]) == ("FINISHED", "complete")
    assert yaml.safe_load(real.home.artifact(parent, "spec.yaml"))["arms"] == ARMS
    plan = json.loads(real.home.artifact(parent, "plan.json"))
    assert len(plan["arms"]) == 2
    reasons = {entry["implementation"]: entry["reason"] for entry in plan["impossible"]}
    assert len(plan["impossible"]) == 4
    assert set(reasons) == set(ARMS["implementations"])
    assert "Sweep digits" in parent.data.tags["mlflow.note.content"]
    assert "Sweep digits" in real.home.artifact(parent, "report.md")
    (environment,) = Path(parent.info.artifact_uri.removeprefix("file://")).glob("environment/*")
    facts = json.loads(environment.read_text())
    assert "tensorflow" in facts
    assert "keras" in facts


def expect_mlflow_has_a_run_for_each_trial_with_the_documented_names(real: Real) -> None:
    real.home.expect_exactly_once(NAME, 4)
    (parent,) = real.home.parents(NAME)
    client = real.home.client()
    for run in real.home.children(NAME):
        assert run.info.status == "FINISHED"
        assert run.data.tags[PARENT] == parent.info.run_id
        assert set(PARAMS) <= set(run.data.params)
        assert {*TAGS, "kernel_ran", "kernel_evidence"} <= set(run.data.tags)
        assert set(METRICS) <= set(run.data.metrics)
        assert (run.data.params["repeat"], run.data.params["cell"]) == ("0", "lstm")
        assert run.data.params["jit"] == str("+xla" in run.data.tags["implementation"]).lower()
        for curve in ("loss", "val_accuracy", "epoch_s"):
            points = client.get_metric_history(run.info.run_id, curve)
            assert {point.step for point in points} == {0, 1}
        system = client.get_metric_history(run.info.run_id, "system/cpu_utilization_percentage")
        assert len(system) >= 2
        assert all(0 <= point.value <= 100 for point in system)
        assert run.info.start_time <= system[0].timestamp <= run.info.end_time
        # Two epochs of digits are too short for energy, wherever it could be read.
        assert "energy_j" not in run.data.metrics
        assert {"energy_absent", "neighbours"} <= set(run.data.tags)
        seconds = (run.info.end_time - run.info.start_time) / 1000
        assert run.data.metrics["cost_usd"] == pytest.approx(1e-4 * seconds, abs=1e-6)
        assert run.data.tags["cost_basis"].endswith("from setup to predict (a bill, 2026-11-21)")
        (given,) = run.inputs.dataset_inputs
        assert given.dataset.name == "digits"
        assert len(given.dataset.digest) >= 8


def expect_the_arms_of_a_block_start_the_same(real: Real) -> None:
    blocks: dict[str, list[Any]] = {}
    for run in real.home.children(NAME):
        blocks.setdefault(run.data.tags["block"], []).append(run)
    for plain, xla in blocks.values():
        assert plain.data.params["seed"] == xla.data.params["seed"]
        assert plain.data.metrics["loss"] == pytest.approx(xla.data.metrics["loss"], rel=1e-3)
        difference = plain.data.metrics["val_accuracy"] - xla.data.metrics["val_accuracy"]
        assert abs(difference) <= 0.02  # two samples of the hundred


def expect_the_report_agrees_with_the_store_number_by_number(real: Real) -> None:
    report = real.home.report(NAME)
    assert report["format"] == "rnnsweep-report"
    runs = {run.info.run_id: run for run in real.home.children(NAME)}
    assert {trial["run_id"] for trial in report["trials"]} == set(runs)
    for trial in report["trials"]:
        run = runs[trial["run_id"]]
        assert trial["trial_key"] == run.data.tags["trial_key"]
        assert {name: run.data.metrics[name] for name in trial["metrics"]} == trial["metrics"]
        config = {name: run.data.params[name] for name in trial["config"]}
        assert {name: str(value) for name, value in trial["config"].items()} == config
    for arm in report["arms"]:
        implementation = arm["arm"]["implementation"]
        of_arm = [r for r in runs.values() if r.data.tags["implementation"] == implementation]
        steps = [run.data.metrics["step_ms"] for run in of_arm]
        assert arm["measures"]["step_ms"]["median"] == pytest.approx(sum(steps) / 2)


def expect_query_and_compare_read_the_same_trials(real: Real, tmp_path: Path) -> None:
    columns = ("--columns", "run_id,step_ms", "--format", "csv")
    table = real.home.run("query", NAME, *columns).expect(0).out
    steps = {row["run_id"]: float(row["step_ms"]) for row in csv.DictReader(io.StringIO(table))}
    runs = real.home.children(NAME)
    assert steps == {run.info.run_id: run.data.metrics["step_ms"] for run in runs}
    saved = real.home.report(NAME)
    saved["sweep"]["run_id"] = "another"
    (tmp_path / "saved.json").write_text(json.dumps(saved))
    done = real.home.run("compare", tmp_path / "saved.json", NAME).expect(0)
    assert "inconclusive" in done.out, "two configs are too few"


def expect_a_second_start_runs_and_changes_nothing(real: Real) -> None:
    journal = real.home.journal(NAME)
    before = {run.info.run_id: run.to_dictionary() for run in real.home.children(NAME)}
    log = (real.home.sweep(NAME) / "run.log").read_text()
    done = real.home.run("run", real.spec).expect(0)
    assert done.out == real.done.out
    nothing, link, *_ = done.err.splitlines()
    assert nothing == "All trials were done already; nothing was run."
    assert "rnnsweep ui" in link
    assert "?viewStateShareKey=" in link
    assert (real.home.sweep(NAME) / "run.log").read_text() == log  # and Ray was not started
    assert real.home.journal(NAME) == journal
    after = {run.info.run_id: run.to_dictionary() for run in real.home.children(NAME)}
    assert after == before
    assert len(real.home.parents(NAME)) == 1
    status = real.home.run("status").expect(0).out
    assert status.startswith(f"{NAME}: complete\n  4 of 4 trials ended (4 complete), 2 of 2 blocks")
