"""The versioned object: its keys, its numbers, and the trials behind them."""

from __future__ import annotations

import json
import math
import statistics
from typing import Any

from orchestrator.core.arms import Arm
from orchestrator.core.records import SweepRecord
from orchestrator.report.formats import json_schema
from orchestrator.report.render import render, summarise
from tests.orchestrator.sample_records import CPU, PORTABLE, XLA, changed, paired, sweep, trial


def read(record: SweepRecord) -> dict[str, Any]:
    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    content = json.loads(render(summarise(record), "json"), parse_constant=refuse)
    assert isinstance(content, dict)
    return content


def test_the_keys_of_version_5() -> None:
    """A change here is a new version, unless keys are only added; the schema has the rest."""
    content = read(paired(7))
    assert (content["format"], content["version"]) == ("rnnsweep-report", 5)
    assert list(content) == [
        "format", "version", "sweep", "baseline", "time_metric", "complete_blocks", "gaps",
        "set_aside", "configs", "comparisons", "measures", "arms", "front", "left_out",
        "impossible", "trials", "different_mathematics", "matrix", "best_of_arm", "fronts",
        "crossovers", "break_evens", "learning", "phases", "curves", "published", "validity",
        "sizes", "rankings", "targets", "complete_rounds", "former",
    ]  # fmt: skip
    assert content["trials"][0]["arm"] == {
        "implementation": "tensorflow/portable",
        "hardware": {
            "hardware_class": {
                "id": "AMD EPYC/2",
                "device": "cpu",
                "name": "AMD EPYC, 2 CPUs",
                "gpu": None,
            },
            "usage": {"cpus": None, "threads": None, "settings": {}, "measure": "full"},
        },
    }


def test_an_entry_stands_on_a_line() -> None:
    lines = render(summarise(paired(7)), "json").splitlines()
    assert sum('"run_id": "run-tensorflow' in line for line in lines) == 14


def test_every_figure_names_its_runs() -> None:
    """Those of a cell are the runs whose values its figures are made from, and those alone."""
    content = read(paired(7, lambda block: 1.1 + block / 10))
    metrics = {row["run_id"]: row["metrics"] for row in content["trials"]}
    for cell in content["matrix"]["cells"]:
        steps = [metrics[run_id]["step_ms"] for run_id in cell["run_ids"]["any"]]
        assert len(steps) == 7
        assert statistics.median(steps) == cell["figures"]["step_ms"]["median"]
    for size in (cell for by in content["sizes"] for g in by["groups"] for cell in g["cells"]):
        steps = [metrics[run_id]["step_ms"] for run_id in size["run_ids"]]
        assert statistics.median(steps) == size["time"]["median"]
    (comparison,) = content["comparisons"]
    assert len(comparison["pairs"]) == 7
    for pair in comparison["pairs"]:
        for side in ("arm", "baseline"):
            (run_id,) = pair[f"{side}_runs"]
            assert metrics[run_id]["step_ms"] == pair[side]


def test_a_pair_names_the_runs_of_all_its_rounds() -> None:
    """And no others: not that of the round which was disturbed, nor of one without a time."""
    trials = [
        trial(
            arm,
            block,
            repeat,
            step_ms=None if (arm, block, repeat) == (XLA, 1, 1) else 10.0 + repeat,
            disturbance={"slow_canary": 1.5} if (arm, block, repeat) == (XLA, 0, 0) else {},
        )
        for block in range(7)
        for repeat in range(3)
        for arm in (PORTABLE, XLA)
    ]
    content = read(sweep(trials))
    (comparison,) = content["comparisons"]
    own = [(pair["arm_runs"], pair["baseline_runs"]) for pair in comparison["pairs"]]
    runs = {
        arm: [f"run-{arm.implementation}-{block}-{repeat}" for block, repeat in
              ((0, 1), (0, 2), (1, 0), (1, 2))]
        for arm in (PORTABLE, XLA)
    }  # fmt: skip
    assert own[0] == (runs[XLA][:2], runs[PORTABLE][:2])
    assert own[1] == (runs[XLA][2:], runs[PORTABLE][2:])
    assert content["complete_rounds"] == [[b, r] for b in range(7) for r in range(3)]


def test_phases_and_noise_count_all_complete_trials_in_a_complete_round_or_not() -> None:
    """The figures agree with the description in the schema."""
    alone = trial(PORTABLE, 7, train_s=90.0, others_cpu_pct=50.0)  # XLA has no block 7
    made = [
        changed(t, metrics={**t.metrics, "train_s": 10.0, "others_cpu_pct": 1.0})
        for t in paired(7).trials
    ]
    content = read(sweep([*made, alone]))
    assert [7, 0] not in content["complete_rounds"]
    first, _ = content["phases"]
    assert (first["trials"], first["seconds"]["train_s"]) == (8, 20.0)
    assert content["validity"]["arms"][0]["noise"]["others_cpu_pct"]["n"] == 8
    arm, cell = content["arms"][0], content["matrix"]["cells"][0]
    assert (arm["used"], len(cell["run_ids"]["any"])) == (7, 7)
    description = json_schema.schema()["description"]
    assert "trainer always use all complete trials" in description


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
