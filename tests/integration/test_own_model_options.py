"""A sweep of an own PyTorch module with many options."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.integration.sweeping import Home
from tests.workloads.shared_trainer import expect_package

pytestmark = pytest.mark.full


def own_spec(home: Home, module: str, settings: dict[str, Any], **changes: Any) -> Path:
    expect_package("torch")
    functions = {
        "workload": None,
        "model": f"tests.integration.{module}:build",
        "data": f"tests.integration.{module}:load",
        "sampler": None,
        "space": None,
    }
    return home.spec("own", {"batch_size": 8, **settings}, **{**functions, **changes})


def test_pruning_keeping_and_another_precision(joining: Home) -> None:
    arms = ["torch/auto", "torch/auto+bf16"]
    spec = own_spec(
        joining,
        "own_module",
        {"epochs": 60, "units": 6, "timed_steps": 0, "keep": "best"},
        objectives={"val_mae": "minimize"},
        margins={"val_mae": 0.5},
        configs=[{"rate": rate} for rate in (0.02, 0.03, 0.0)],
        pruner={"name": "median", "n_startup_trials": 2, "n_warmup_steps": 5},
        implementations=arms,
    )
    joining.run("run", spec).expect(0)
    report = joining.report("own")
    trials = report["trials"]
    assert len(trials) == 5, "nothing more of a pruned config"
    by_rate = {trial["config"]["rate"]: trial["status"] for trial in trials}
    assert by_rate == {0.02: "complete", 0.03: "complete", 0.0: "pruned"}
    assert {trial["arm"]["implementation"] for trial in trials} == set(arms)
    kept = [path for path in joining.path.rglob("state_dict.pt") if path.stat().st_size]
    assert len(kept) >= len(arms), "the best model of each arm"
    best = json.loads(joining.run("best", "own", "--format", "json").expect(0).out)
    keys = [trial["trial_key"] for trial in trials if trial["run_id"] in best["run_ids"]]
    (model,) = joining.path.rglob(f"{keys[0]}.tar")
    assert model.stat().st_size == 0, "MLflow has the model of the best config"
    margins = [each["margin"] for each in report["contrasts"] if each["metric"] == "val_mae"]
    assert margins == [0.5]
