"""A report as JSON: the versioned object, its schema, and each answer in it once."""

import json
import random
from collections import Counter
from statistics import geometric_mean
from typing import Any

import jsonschema
import pytest

from orchestrator.analysis.contrasts.contrast import Qualifier, Question, Scale, Unit, Verdict
from orchestrator.analysis.summary import summarise
from orchestrator.core.records import SweepRecord
from orchestrator.report.formats.json_format import summary_json
from orchestrator.report.formats.json_schema import REPORT_SCHEMA_FILE
from tests.building.arms import ARMS_OF_CELLS, PORTABLE, XLA
from tests.building.large_records import build_large_record, build_rich_record
from tests.building.records import build_paired_record, build_record
from tests.building.trials import build_trial
from tests.orchestrator.report.kinds_of_sweeps import RECORDS

VALIDATOR = jsonschema.Draft202012Validator(json.loads(REPORT_SCHEMA_FILE.read_text("utf-8")))


def read(record: SweepRecord, baseline: str | None = None) -> dict[str, Any]:
    text = summary_json(summarise(record, baseline))
    assert text.isascii() and text.endswith("\n")
    content: dict[str, Any] = json.loads(text, parse_constant=pytest.fail)
    return content


@pytest.mark.parametrize("name", RECORDS)
def test_the_json_of_every_kind_of_sweep_has_the_published_schema(name: str) -> None:
    VALIDATOR.validate(read(RECORDS[name]))


def test_the_published_schema_refuses_other_versions_and_unknown_fields() -> None:
    VALIDATOR.check_schema(VALIDATOR.schema)
    content = read(build_paired_record(7))
    for spoiled in ({**content, "version": 1}, {**content, "trials": None}, {**content, "new": 1}):
        with pytest.raises(jsonschema.ValidationError):
            VALIDATOR.validate(spoiled)


def test_the_words_of_contrasts_are_those_of_the_schema() -> None:
    definitions = VALIDATOR.schema["$defs"]
    for words in (Question, Scale, Verdict, Qualifier, Unit):
        assert definitions[words.__name__]["enum"] == [*words]


def simulated(seed: int) -> SweepRecord:
    """Return a sweep of four arms of two cells, which differ little, some blocks disturbed."""
    draw = random.Random(seed)
    speeds = {arm: draw.lognormvariate(0, 0.03) for arm in ARMS_OF_CELLS}
    trials = [
        build_trial(
            block,
            arm,
            config={"units": 16 * 2 ** (block % 4), "layers": 1 + block % 2},
            metrics={
                "step_ms": 5.0 * (1 + block) * speeds[arm] * draw.lognormvariate(0, 0.03),
                "val_accuracy": 0.9 + draw.gauss(0, 0.01),
                "train_s": 10.0 * speeds[arm],
                "compile_s": 2.0,
            },
            disturbance={"other_processes": 30.0} if draw.random() < 0.1 else {},
        )
        for block in range(8)
        for arm in ARMS_OF_CELLS
    ]
    return build_record(trials, ARMS_OF_CELLS)


WHOLE: dict[str, SweepRecord] = {
    **{f"simulated {seed}": simulated(seed) for seed in range(5)},
    "two classes of hardware": build_large_record(blocks=14, kernels=3),
    "failures": build_rich_record(),
    **RECORDS,
}


@pytest.mark.parametrize("name", WHOLE)
def test_each_pair_is_compared_once_by_each_metric(name: str) -> None:
    """Whichever question asked for it: one interval and one verdict."""
    record = WHOLE[name]
    for baseline in [None, *{str(arm) for arm in record.arms[-1:]}]:
        contrasts = read(record, baseline)["contrasts"]
        found = Counter(
            (frozenset((one["subject"], one["reference"])), one["metric"]) for one in contrasts
        )
        assert [pair for pair, times in found.items() if times > 1] == []
        if name.startswith("simulated"):
            assert {one["question"] for one in contrasts} >= {"baseline", "factor", "size"}


def test_a_contrast_is_computed_from_the_values() -> None:
    content = read(build_paired_record(7, lambda block: 1.2 + block / 100))
    (contrast, *_) = (one for one in content["contrasts"] if one["question"] == "baseline")
    assert (contrast["subject"], contrast["reference"]) == (str(XLA), str(PORTABLE))
    (values,) = (one for one in content["values"] if one["metric"] == contrast["metric"])
    names = [arm["implementation"] for arm in values["arms"]]
    at = {arm: names.index(arm.implementation) for arm in (PORTABLE, XLA)}
    ratios = [row[at[PORTABLE]] / row[at[XLA]] for row in values["values"]]
    assert len(values["blocks"]) == len(ratios) == contrast["blocks"] == 7
    ends = contrast["lowest"], contrast["highest"]
    assert (min(ratios), max(ratios)) == pytest.approx(ends)


def test_values_leave_out_disturbed_repeats_and_repeats_without_a_time() -> None:
    trials = [
        build_trial(
            block,
            arm,
            repeat,
            step_ms=None if (arm, block, repeat) == (XLA, 1, 1) else 10.0 + repeat,
            disturbance={"low_clocks": 15.0} if (arm, block, repeat) == (XLA, 0, 0) else {},
        )
        for block in range(7)
        for repeat in range(3)
        for arm in (PORTABLE, XLA)
    ]
    (values,) = (v for v in read(build_record(trials))["values"] if v["metric"] == "step_ms")
    repeats = [(11.0, 12.0), (10.0, 12.0), *[(10.0, 11.0, 12.0)] * 5]
    expected = [geometric_mean(of_block) for of_block in repeats]
    for of_arm in zip(*values["values"], strict=True):
        assert of_arm == pytest.approx(expected)
    assert values["disturbed"] == []
