"""Samplers at many configs: milliseconds of a suggestion, and of a replay in a resumed search.

A learning sampler suggests the first and the last tenth of the configs; those between are random.
The time is this process's CPU time.
"""

import random
import time
from statistics import fmean
from typing import Any

from infra.benchmarks import rig
from orchestrator.sampling.samplers import Random
from orchestrator.scheduling.suggester import Suggester
from orchestrator.spec import Search

CONFIGS, _OPEN = 10_000, 16
_SPACE = {
    "units": {"low": 16, "high": 512, "log": True},
    "layers": [1, 2, 3],
    "dropout": {"low": 0.0, "high": 0.5, "when": {"layers": [2, 3]}},
    "rate": {"low": 1e-5, "high": 1e-1, "log": True},
    "batch_size": [32, 64, 128, 256],
}
_SEARCHES = [("tpe", 1), ("tpe", 2), ("nsga2", 2), ("random", 1), ("qmc", 1), ("grid", 1)]
"""Samplers, and numbers of objectives."""


def measure() -> list[dict[str, Any]]:
    rows = []
    for sampler, objectives in _SEARCHES:
        space = {"units": {"low": 1, "high": CONFIGS}} if sampler == "grid" else _SPACE
        goals = dict.fromkeys("xy"[:objectives], "maximize")
        body = {"sampler": sampler, "configs": CONFIGS, "space": space, "objectives": goals}
        search = Search.model_validate(body)
        first, last, replay_ms = _run(search)
        name, limit = f"{sampler}, {objectives} of x, y", None if search.sampler.learns else 1.1
        rows += [
            rig.figure(f"{name}: ms a suggestion, last tenth", last, 50.0),
            rig.figure(f"{name}: last tenth ÷ first ({first:.2f} ms)", last / first, limit),
            rig.figure(f"{name}: ms to replay a config", replay_ms),
        ]
    return rows


def _run(search: Search) -> tuple[float, float, float]:
    first, resumed = Suggester(search, 0), Suggester(search, 0)
    others = Suggester(search.model_copy(update={"sampler": Random()}), 1)
    tenth, suggested_s, replayed_s = CONFIGS // 10, list[float](), list[float]()
    for index in range(CONFIGS):
        is_drawn = search.sampler.learns and tenth <= index < CONFIGS - tenth
        began_s = time.process_time()
        config = (others if is_drawn else first).suggest(index)
        assert config is not None
        units = config["units"]
        assert isinstance(units, int)
        if is_drawn:
            first.replay(index, config)
        else:
            suggested_s.append(time.process_time() - began_s)
        began_s = time.process_time()
        resumed.replay(index, config)
        replayed_s.append(time.process_time() - began_s)
        for suggester in (first, resumed):
            values = [random.Random(index).random() + units] * 2
            suggester.report(index - _OPEN, values[: len(search.objectives)])
    assert resumed.suggest(CONFIGS) == first.suggest(CONFIGS)
    parts = suggested_s[:tenth], suggested_s[-tenth:], replayed_s
    first_ms, last_ms, replay_ms = (1e3 * fmean(part) for part in parts)
    return first_ms, last_ms, replay_ms
