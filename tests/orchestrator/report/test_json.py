"""The versioned object: its keys, its numbers, and the trials behind them."""

from __future__ import annotations

import json
import math
from typing import Any

from orchestrator.report.records import SweepRecord
from orchestrator.report.rendering import render, summarise
from orchestrator.trial import Arm
from tests.orchestrator.report.records import CPU, PORTABLE, XLA, paired, sweep, trial


def read(record: SweepRecord) -> dict[str, Any]:
    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    content = json.loads(render(summarise(record), "json"), parse_constant=refuse)
    assert isinstance(content, dict)
    return content


def test_the_keys_of_version_1() -> None:
    """A change here is a new version, unless keys are only added."""
    content = read(paired(7))
    assert (content["format"], content["version"]) == ("rnnsweep-report", 1)
    assert list(content) == [
        "format", "version", "sweep", "baseline", "time_metric", "complete_blocks", "gaps",
        "set_aside", "configs", "comparisons", "measures", "arms", "front", "left_out",
        "impossible", "trials", "different_mathematics",
    ]  # fmt: skip
    assert list(content["sweep"]) == [
        "name", "generation", "label", "workload", "state", "run_id", "objectives", "blocks",
        "repeats", "trials", "environment", "settings", "datasets", "sampler", "seed",
    ]  # fmt: skip
    assert list(content["comparisons"][0]) == [
        "arm", "baseline", "metric", "pairs", "speedup", "verdict", "reason",
        "accuracy_difference",
    ]  # fmt: skip
    assert list(content["comparisons"][0]["speedup"]) == ["n", "value", "low", "high"]
    assert list(content["arms"][0]) == [
        "arm", "planned", "trials", "matched", "used", "measures", "kernels", "unproven",
        "mathematics",
    ]  # fmt: skip
    assert list(content["trials"][0]) == [
        "run_id", "trial_key", "block", "config", "arm", "repeat", "status", "metrics", "kernel",
        "failure", "node", "trainer_trials", "notes",
    ]  # fmt: skip
    assert content["trials"][0]["arm"] == {"implementation": "tensorflow/portable", "hardware": CPU}


def test_every_number_can_be_made_again_from_the_raw_trials() -> None:
    content = read(paired(7, lambda block: 1.1 + block / 10))
    times = {
        (row["block"], row["arm"]["implementation"]): row["metrics"]["step_ms"]
        for row in content["trials"]
    }
    logs = [
        math.log(times[b, PORTABLE.implementation] / times[b, XLA.implementation])
        for b in content["complete_blocks"]
    ]
    (comparison,) = content["comparisons"]
    assert math.isclose(comparison["speedup"]["value"], math.exp(sum(logs) / len(logs)))
    assert len({row["run_id"] for row in content["trials"]}) == 14


def test_numbers_are_finite_or_null() -> None:
    trials = [
        trial(PORTABLE, 0, step_ms=math.nan, config={"rate": math.inf}),
        trial(XLA, 0, status="failed", loss=math.inf, failure="non_finite: loss"),
    ]
    content = read(sweep(trials))
    first, second = content["trials"]
    assert (first["metrics"]["step_ms"], first["config"]["rate"]) == (None, None)
    assert second["metrics"]["loss"] is None


def test_hostile_and_unicode_text_comes_back_as_it_was() -> None:
    name = '名 <script> "quoted" \n \x1b \ud800 =cmd|'
    content = read(sweep([trial(Arm(name, CPU), 0)], (Arm(name, CPU),), name=name))
    assert content["sweep"]["name"] == name
    assert content["trials"][0]["arm"]["implementation"] == name
    assert render(summarise(sweep([], name=name)), "json").isascii()


def test_no_trials() -> None:
    content = read(sweep([], arms=()))
    assert (content["baseline"], content["trials"], content["arms"]) == (None, [], [])
