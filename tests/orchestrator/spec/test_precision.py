"""The precision of a sweep, as a user writes it: slices, blocks, margins."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import yaml

from orchestrator.core.criteria import (
    AutoBlocks,
    DisturbanceLimits,
    Margins,
    PublishedRow,
    ReportCriteria,
    Timing,
)
from orchestrator.spec import Problem, SpecError, SweepSpec, parse

SPEC = """\
name: sure
workload: image_rows
settings: {dataset: digits, epochs: 1}
search: {sampler: random, space: {units: {low: 8, high: 64}}, objectives: {}}
arms: {implementations: [tensorflow/portable], hardware: [gpu, cpu]}
blocks: auto
"""
MIXED = "arms.hardware=[gpu, {class: cpu, measure: timing}]"
PUBLISHED = """\
published:
  - source: a paper
    implementation: tensorflow/cudnn
    hardware: Tesla P100
    config: {units: 128}
    metrics: {fit_s: 39.82, val_accuracy: 0.985, slices: 3}
"""


def read(*overrides: str, text: str = SPEC) -> SweepSpec:
    return parse(text, source="x.yaml", overrides=overrides)


def refused(*overrides: str, text: str = SPEC) -> list[Problem]:
    with pytest.raises(SpecError) as caught:
        read(*overrides, text=text)
    return list(caught.value.problems)


def test_without_a_word_arms_are_trained_whole_and_disturbance_is_marked() -> None:
    spec = read("search.configs=4", text=SPEC.replace("blocks: auto\n", ""))
    assert (spec.timing, spec.disturbance_limits, spec.auto_blocks) == (
        Timing(),
        DisturbanceLimits(),
        None,
    )
    assert spec.criteria() == ReportCriteria()
    assert spec.most_blocks == 4
    assert [str(entry) for entry in spec.hardware] == ["gpu", "cpu"]


def test_the_sweeps_measure_is_that_of_entries_without_their_own() -> None:
    timed = read("measure=timing", "arms.hardware=[gpu, {class: cpu, measure: full}]")
    assert [entry.usage.measure for entry in timed.hardware] == ["timing", "full"]
    mixed = read(MIXED)
    assert [str(entry) for entry in mixed.hardware] == ["gpu", "cpu [timing]"]


def test_how_arms_are_timed() -> None:
    spec = read("measure={mode: timing, interval: 0.02, slices: [8, 20], slice_s: 1}")
    assert spec.timing == Timing(0.02, 8, 20, 1.0)


@pytest.mark.parametrize("written", ["measure=timing", "measure={mode: timing}"])
def test_an_override_inside_of_a_short_form_keeps_the_meaning_of_the_word(written: str) -> None:
    spec = read(written, "measure.interval=0.03", "blocks.at_most=9", "disturbed.canary=2")
    assert spec.measure.mode == "timing"
    assert spec.timing.interval == 0.03
    assert spec.auto_blocks == AutoBlocks(most=9)
    assert spec.disturbance_limits == DisturbanceLimits(canary=2.0)


def test_the_limits_of_disturbance() -> None:
    assert read("disturbed=mark").disturbance_limits == DisturbanceLimits()
    spec = read("disturbed={action: mark, canary: 1.5, others_cpu_pct: 20}")
    assert spec.disturbance_limits == DisturbanceLimits(others_cpu_pct=20.0, canary=1.5)


def test_the_report_criteria_of_a_sweep() -> None:
    margins = "margins={speed: 0.05}"
    spec = read(margins, "baseline=tensorflow/portable", text=SPEC + PUBLISHED)
    row = PublishedRow(
        "a paper",
        "tensorflow/cudnn",
        "Tesla P100",
        {"units": 128},
        {"fit_s": 39.82, "val_accuracy": 0.985, "slices": 3.0},
    )
    assert spec.criteria() == ReportCriteria(
        "tensorflow/portable", Margins(0.05), AutoBlocks(), (row,)
    )


def test_blocks_come_until_the_space_is_used_up() -> None:
    assert read("search.space.units=[1, 2, 3, 4, 5, 6, 7]", "search.sampler=grid").most_blocks == 7
    assert read().most_blocks == 57
    assert read("search.space.units={low: 1, high: 500}").most_blocks == 60


def test_an_override_takes_it_back() -> None:
    spec = read("blocks=null", "search.configs=3")
    assert (spec.auto_blocks, spec.most_blocks) == (None, 3)


def test_none_of_it_makes_another_sweep() -> None:
    other = read("measure=timing", "disturbed={canary: 2}", text=SPEC + PUBLISHED)
    assert other.comparable_search() == read().comparable_search()
    assert other.written_settings() == read().written_settings()


def test_it_survives_the_journal_and_the_store() -> None:
    spec = read("measure=timing", MIXED, "disturbed={canary: 2}", text=SPEC + PUBLISHED)
    for unset in (True, False):
        body = spec.model_dump(mode="json", exclude_unset=unset, exclude_none=True)
        restored = parse(yaml.safe_dump(body), source="store")
        assert restored.criteria() == spec.criteria()
        assert (restored.hardware, restored.timing, restored.disturbance_limits) == (
            spec.hardware,
            spec.timing,
            spec.disturbance_limits,
        )


@dataclass(frozen=True)
class Case:
    """A wrong spec: what is written, and the error with its place."""

    overrides: tuple[str, ...]
    key: str
    expected: str
    hint: str = ""


CASES = (
    Case(("measure=timming",), "measure", "full or timing", "'timing'"),
    Case(("measure={mode: timming}",), "measure.mode", "'full' or 'timing'", "'timing'"),
    Case(("measure={mod: timing}",), "measure.mod", "mode, interval, slices", "'mode'"),
    Case(("measure={mode: timing, slices: [9, 7]}",), "measure.slices", "fewest slices first"),
    Case(("measure={mode: timing, slices: [2, 7]}",), "measure.slices[0]", "at least 6"),
    Case(("measure.interval=0.02",), "measure.interval", "timed in slices", "mode: timing"),
    Case(
        ("arms.hardware=[{class: cpu, measure: slices}]",), "arms.hardware[0].measure", "'timing'"
    ),
    Case(
        ("measure=timing", "arms.hardware=[cpu, {class: cpu, measure: timing}]"),
        "arms.hardware[1]",
        "once",
    ),
    Case(("blocks=7",), "blocks", "auto", "search.configs"),
    Case(("blocks=automatic",), "blocks", "auto", "'auto'"),
    Case(("blocks.at_lest=8",), "blocks.at_lest", "at_least", "'at_least'"),
    Case(("blocks.at_least=4",), "blocks.at_least", "at least 6"),
    Case(("blocks={at_least: 9, at_most: 8}",), "blocks.at_most", "at_least (9)"),
    Case(("blocks.interval=1.5",), "blocks.interval", "less than 1"),
    Case(("search.configs=5",), "search.configs", "no configs with blocks", "at_most"),
    Case(
        ("search={configs: [{units: 5}, {units: 6}]}",),
        "search.configs",
        "no configs with blocks",
        "a list decides the blocks",
    ),
    Case(("search.space.units=[1, 2, 3]",), "search.space", "at least 6 configs"),
    Case(("disturbed=again",), "disturbed", "mark, or a mapping"),
    Case(("disturbed=rerun",), "disturbed", "mark", "blocks: auto"),
    Case(("disturbed={action: rerun}",), "disturbed", "mark", "blocks: auto"),
    Case(("disturbed.canary=0.9",), "disturbed.canary", "more than 1"),
    Case(("margins={sped: 0.1}",), "margins.sped", "speed, accuracy", "'speed'"),
    Case(("margins.speed=0",), "margins.speed", "more than 0"),
    Case(
        ("measure=timing", "search.objectives={val_accuracy: maximize}"),
        "search.objectives.val_accuracy",
        "trained whole",
        "measure: full",
    ),
    Case(
        (MIXED, "search.objectives={loss: {direction: minimize, over: cpu}}"),
        "search.objectives.loss",
        "trained whole",
    ),
    Case(("published=[{source: x}]",), "published[0].implementation", "a value"),
    Case(
        ("published=[{source: x, implementation: y, hardware: z, metrics: {step_m: 1}}]",),
        "published[0].metrics.step_m",
        "a metric of ours",
        "'step_ms'",
    ),
    Case(
        ("published=[{source: x, implementation: y, hardware: z, metrics: {step_ms: '1'}}]",),
        "published[0].metrics.step_ms",
        "a number",
        "without quotes",
    ),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.overrides[-1])
def test_what_is_wrong_is_reported_with_its_place(case: Case) -> None:
    problem = {error.key: error for error in refused(*case.overrides)}[case.key]
    assert case.expected in problem.expected
    assert case.hint in problem.hint
    assert problem.received


def test_objectives_of_a_timing_sweep_may_be_times() -> None:
    spec = read(
        "measure=timing",
        "search.objectives={step_ms: minimize, cost_usd: minimize}",
        "prices=[{hardware: cpu, usd_per_hour: 1, source: us, date: 2026-11-21}]",
    )
    assert set(spec.search.objectives) == {"step_ms", "cost_usd"}


def test_accuracy_is_read_where_some_arm_is_trained_whole() -> None:
    assert read(MIXED, "search.objectives={val_accuracy: maximize}").search.objectives


def test_a_missing_number_of_configs_names_the_other_way() -> None:
    (problem,) = refused(text=SPEC.replace("blocks: auto\n", ""))
    assert problem.key == "search.configs"
    assert "blocks: auto" in problem.hint
