"""Sweeps of an own Keras model, and of an own PyTorch module, with many options."""

from dataclasses import dataclass
from typing import Any

import pytest

from tests.integration.sweeping import Home
from tests.lacking import skip_here
from workloads.eligibility import is_installed

pytestmark = [pytest.mark.full, pytest.mark.timeout(600)]


@dataclass(frozen=True)
class Own:
    name: str
    module: str
    implementations: tuple[str, str]
    objective: str
    kept: str
    """A file of the kept model."""

    def spec(self, home: Home, name: str, settings: dict[str, Any], **changes: Any) -> Any:
        if not is_installed(self.implementations[0].partition("/")[0]):
            skip_here("PyTorch is not installed here")
        given = {
            "workload": None,
            "model": f"tests.integration.{self.module}:build",
            "data": f"tests.integration.{self.module}:load",
            "objectives": {self.objective: "minimize"},
            "sampler": None,
            "space": None,
            **changes,
        }
        return home.spec(f"{self.name}-{name}", {"batch_size": 8, **settings}, **given)


MODELS = [
    Own(
        "keras",
        "own_model",
        ("tensorflow/auto", "tensorflow/portable+bf16"),
        "val_level_mae",
        "model.keras",
    ),
    Own("pytorch", "own_module", ("torch/auto", "torch/auto+bf16"), "val_mae", "state_dict.pt"),
]
each_model = pytest.mark.parametrize("own", MODELS, ids=lambda own: own.name)


@each_model
def test_slices_threads_variants_and_as_many_blocks_as_needed(home: Home, own: Own) -> None:
    if not is_installed("torch"):  # it compiles nothing, and 24 trials are soon done
        skip_here("PyTorch is not installed here")
    spec = own.spec(
        home,
        "slices",
        {},
        objectives={"step_ms": "minimize"},
        space={"units": {"low": 4, "high": 12}},
        sampler="random",
        configs=None,
        blocks={"interval": 0.9, "at_least": 6, "at_most": 7},
        measure={"mode": "timing", "interval": 0.5, "slices": [6, 8], "slice_s": 0.02},
        implementations=["torch/auto"],
        hardware=[{"class": "cpu", "threads": 1}, {"class": "cpu", "threads": 2}],
        variants=[{"depth": 1}, {"depth": 2}],
    )
    home.run("run", spec, timeout_s=500).expect(0)
    report = home.report(spec.stem)
    trials = report["trials"]
    assert {trial["status"] for trial in trials} == {"complete"}
    arms = {
        (trial["arm"]["variant"]["name"], trial["arm"]["hardware"]["usage"]["threads"])
        for trial in trials
    }
    assert len(arms) == 4
    assert 6 <= len({trial["block"] for trial in trials}) <= 7
    assert all(trial["metrics"]["slices"] >= 6 for trial in trials)
    compared = [row["mathematics"] for row in report["arms"] if row["mathematics"]]
    assert compared and not any(mathematics["is_different"] for mathematics in compared)


@each_model
def test_pruning_keeping_and_another_precision(home: Home, own: Own) -> None:
    spec = own.spec(
        home,
        "pruned",
        {"epochs": 150, "units": 6, "timed_steps": 0, "keep": "best"},
        configs=[{"rate": rate} for rate in (0.02, 0.03, 0.0)],
        pruner={"name": "median", "n_startup_trials": 2, "n_warmup_steps": 5},
        implementations=list(own.implementations),
    )
    home.run("run", spec, timeout_s=500).expect(0)
    trials = home.report(spec.stem)["trials"]
    by_rate = {trial["config"]["rate"]: trial["status"] for trial in trials}
    assert by_rate == {0.02: "complete", 0.03: "complete", 0.0: "pruned"}
    assert {trial["arm"]["implementation"] for trial in trials} == {*own.implementations}
    kept = [path for path in home.path.rglob(own.kept) if path.stat().st_size]
    assert len(kept) == 2, "the best model of each arm"
