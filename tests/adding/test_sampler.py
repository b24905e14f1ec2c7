"""A sampler and a pruner from outside of the packages, in real sweeps; refusals of broken ones."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from orchestrator.core.stop_signal import Stopped
from orchestrator.scheduling.suggester import Suggester
from orchestrator.spec import SpecError, load_spec
from tests.building.specs import build_spec_text
from tests.commands import Done
from tests.integration.conftest import address, joining, ray_token  # noqa: F401  (fixtures)
from tests.integration.sweeping import Home

MODULE = '''\
"""A sampler and a pruner, as a user may have them."""

import os
import random

from optuna.pruners import BasePruner
from optuna.samplers import BaseSampler


class Climber(BaseSampler):
    """Begins at a random place, and goes a step beyond the best block."""

    def __init__(self, step, seed=None):
        if step < 1:
            raise ValueError("the step must be positive")
        self._step, self._random = step, random.Random(seed)

    def infer_relative_search_space(self, study, trial):
        return {}

    def sample_relative(self, study, trial, search_space):
        return {}

    def sample_independent(self, study, trial, name, distribution):
        done = [one for one in study.get_trials(deepcopy=False) if one.value is not None]
        if not done:
            return self._random.randint(5, 9)
        value = max(done, key=lambda one: one.value).params[name] + self._step
        if value > int(os.environ.get("BREAK_ABOVE", "1000")):
            raise LookupError("the top is in clouds")
        return value


class Below(BasePruner):
    """Ends a block as soon as it is below a limit."""

    def __init__(self, limit):
        self._limit = limit

    def prune(self, study, trial):
        if os.environ.get("BREAK_PRUNER"):
            raise LookupError("no light in the tunnel")
        return trial.intermediate_values[trial.last_step] < self._limit


class Unrelated:
    pass
'''
STEP = 8


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a module of the user's, which is the current one."""
    folder = tmp_path / "of_a_user"
    folder.mkdir()
    (folder / "climbing.py").write_text(MODULE)
    monkeypatch.chdir(folder)
    return folder


@dataclass(frozen=True)
class Wrong:
    """A key of the search that is wrong; the line of the spec, and parts of the message."""

    name: str
    search: dict[str, Any]
    key: str
    words: tuple[str, ...]


CLIMBER = {"name": "climbing:Climber", "step": 3}
WRONG = [
    Wrong("module", {"sampler": "climbed:Climber"}, "sampler", ("climbed", "spec file")),
    Wrong("kind", {"sampler": "climbing:Unrelated"}, "sampler", ("BaseSampler",)),
    Wrong("missing", {"sampler": "climbing:Climber"}, "sampler", ("Climber", "(step)")),
    Wrong("unknown", {"sampler": CLIMBER | {"stop": 1}}, "sampler.stop", ("(step)", "stop")),
    Wrong("value", {"sampler": CLIMBER | {"step": 0}}, "sampler", ("climbing.py:",)),
    Wrong("seed", {"sampler": CLIMBER | {"seed": 3}}, "sampler.seed", ("seed of the sweep",)),
    Wrong("shape", {"sampler": "climbing.Climber"}, "sampler", ("package.module:Class",)),
]


@pytest.mark.parametrize("case", WRONG, ids=lambda case: case.name)
def test_a_class_that_cannot_be_used_is_refused_at_its_line(case: Wrong, folder: Path) -> None:
    search = {"sampler": CLIMBER, "objectives": {"val_accuracy": "maximize"}, **case.search}
    path = folder / "spec.yaml"
    path.write_text(build_spec_text(settings={"epochs": 8}, **search))
    top, *inner = case.key.split(".")
    lines = path.read_text().splitlines()
    words = [f"  {top}:", *(f"    {key}:" for key in inner)]
    line = next(n for n, text in enumerate(lines, 1) if text.startswith(words[-1]))
    with pytest.raises(SpecError) as caught:
        load_spec(path, import_classes=True)
    (problem,) = caught.value.problems
    assert problem.location == f"{path}:{line}" or not inner
    assert problem.key.startswith(f"search.{case.key}")
    text = f"{problem.expected} {problem.received} {problem.hint}"
    assert [word for word in case.words if word not in text] == []


def test_a_pruner_that_fails_stops_a_sweep_with_the_reason(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = folder / "spec.yaml"
    pruner = {"name": "climbing:Below", "limit": 0.1}
    path.write_text(
        build_spec_text(
            settings={"epochs": 8}, pruner=pruner, objectives={"val_accuracy": "maximize"}
        )
    )
    suggester = Suggester(load_spec(path, import_classes=True).search, seed=1)
    suggester.suggest(0)
    assert suggester.should_prune(0, 0, 0.05)
    monkeypatch.setenv("BREAK_PRUNER", "1")
    reason = "search.pruner: climbing:Below failed: LookupError: no light"
    with pytest.raises(Stopped, match=re.escape(reason)):
        suggester.should_prune(0, 1, 0.05)


@pytest.mark.full
def test_a_real_sweep_runs_and_resumes_with_a_foreign_sampler_and_pruner(
    joining: Home,  # noqa: F811
    folder: Path,
) -> None:
    """The sampler breaks on the way: the sweep stops with the reason, and goes on from there."""
    spec = joining.spec(
        "climbing",
        {"epochs": 40, "epoch_s": 0.05},
        implementations=["python/a"],
        sampler={"name": "climbing:Climber", "step": STEP},
        pruner={"name": "climbing:Below", "limit": 0.1},
        open_blocks=1,
        configs=5,
        objectives={"val_accuracy": "maximize"},
    )

    def typed(*words: object, **environ: str) -> Done:
        return joining.run(*words, PYTHONPATH=str(folder), **environ)

    stopped = typed("run", spec, BREAK_ABOVE="26").expect(3)
    reason = "search.sampler: climbing:Climber, asked for block 3, failed: LookupError: the top is"
    assert reason in stopped.err and "climbing.py:" in stopped.err
    assert "Traceback" not in stopped.err and f"Resume with: rnnsweep run {spec}" in stopped.err
    assert typed("run", spec).expect(0)

    blocks = [
        record for record in joining.journal("climbing") if record["record"] == "block_suggested"
    ]
    units = [block["config"]["units"] for block in blocks]
    assert 5 <= units[0] <= 9 and units == [units[0] + STEP * block for block in range(5)]
    finished = {
        finished["trial"]["config"]["units"]: finished["outcome"]
        for finished in joining.finished("climbing")
    }
    statuses = {number: outcome["status"] for number, outcome in finished.items()}
    assert statuses == {n: "pruned" if n / 200 < 0.1 else "complete" for n in units}
    assert all(len(finished[number]["epochs"]) < 40 for number in units[:2])
    joining.expect_exactly_once("climbing", 5)
