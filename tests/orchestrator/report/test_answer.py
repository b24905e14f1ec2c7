"""The answer of a report: its facts, its table, its doubts and its length."""

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from orchestrator.analysis.statistics.formatting import ABSENT
from orchestrator.analysis.summary import ReportSummary, summarise
from orchestrator.core.arms import Arm, Variant
from orchestrator.core.records import SweepRecord
from orchestrator.core.start_command import StartCommand
from orchestrator.core.trial import FinishedTrial
from orchestrator.report.document import Fact, Section, Tone
from orchestrator.report.names import arm_names
from orchestrator.report.parts.answer import answer_part, arms_table, short_report, title
from orchestrator.report.parts.doubts import doubts
from orchestrator.report.render import render
from orchestrator.scheduling.leads import leading_facts
from tests.building.arms import CPU, GPU, PORTABLE, UNROLL, XLA
from tests.building.known_records import (
    UNITS,
    build_crossing_laws,
    build_learning_record,
    build_record_by_laws,
    build_target_record,
)
from tests.building.large_records import build_large_record
from tests.building.records import build_paired_record, build_record
from tests.building.trials import (
    build_fingerprint,
    build_timed_trials,
    build_trial,
    change_trial,
)
from tests.orchestrator.report import golden

SIX = tuple(
    Arm(name, CPU)
    for name in (
        "tensorflow/portable",
        "tensorflow/portable+xla",
        "tensorflow/portable+unroll",
        "jax/portable",
        "torch/fused",
        "torch/fused+compile",
    )
)


def answer(record: SweepRecord) -> Section:
    summary = summarise(record)
    return answer_part(summary, arm_names(summary))


def facts(record: SweepRecord) -> dict[str, Fact]:
    return {fact.label: fact for fact in answer(record).facts}


def doubts_of(record: SweepRecord) -> dict[str, str]:
    summary = summarise(record)
    return {fact.label: fact.text for fact in doubts(summary, arm_names(summary))}


def cells(summary: ReportSummary) -> dict[str, dict[str, str]]:
    """Return the cells of the table of arms by arm and column."""
    table = arms_table(summary, arm_names(summary))
    return {row[0]: dict(zip(table.headers, row, strict=True)) for row in table.rows}


def disturbed(trials: Sequence[FinishedTrial], blocks: int) -> list[FinishedTrial]:
    """Return the trials, with other processes in the first blocks."""
    load = {"other_processes": 41.0}
    return [change_trial(t, disturbance=load) if t.block < blocks else t for t in trials]


def six_arms(blocks: int, noise: float = 0.03, busy: int = 0, **changes: Any) -> SweepRecord:
    """Return a sweep in which the arm with the shortest steps compiles longest, and one failed."""
    draw = random.Random(1)
    trials = [
        build_trial(
            block,
            arm,
            step_ms=(10.0 - place) * draw.lognormvariate(0, noise),
            val_accuracy=0.85 + 0.02 * draw.random(),
            train_s=0.15 * (10.0 - place),
            compile_s=0.5 + 0.5 * place,
            config={"units": 16 * (block + 1), "layers": 1 + block % 2, "batch_size": 64},
        )
        for block in range(blocks)
        for place, arm in enumerate(SIX)
    ]
    failure = "crash: signal 11 in the middle of an epoch"
    trials[5] = change_trial(trials[5], status="failed", failure=failure, metrics={})
    return build_record(disturbed(trials, busy), SIX, **changes)


@pytest.mark.parametrize(
    "record",
    [
        pytest.param(six_arms(8, busy=5, expected_trials=50, state="stopped"), id="busy"),
        pytest.param(six_arms(5), id="few"),
        pytest.param(six_arms(9, noise=0.4), id="open"),
    ],
)
def test_six_arms_with_doubts_fit_24_lines_of_80_columns(record: SweepRecord) -> None:
    section = answer(record)
    assert {"fastest", "accuracy", "best", "in all"} <= {fact.label for fact in section.facts}
    assert len(section.doubts) == 2
    lines = render(summarise(record), "text", width=80).splitlines()
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80


@pytest.mark.parametrize(("lacking", "trials"), [(0, "24 trials"), (1, "23 of 24 trials")])
def test_the_title_counts_what_the_last_start_planned(lacking: int, trials: str) -> None:
    staying = build_timed_trials({PORTABLE: 10.0, XLA: 8.0}, 12)
    former = build_timed_trials({UNROLL: 9.0}, 6)
    record = build_record(
        [*staying[lacking:], *former],
        (PORTABLE, XLA, UNROLL),
        current=(PORTABLE, XLA),
        expected_trials=24 + 6,
    )
    assert title(summarise(record)).endswith(f"12 configs × 2 arms · {trials}")
    missing = doubts_of(record).get("missing", "")
    assert missing.startswith("1 of 24 trials" if lacking else "")


def test_rows_beyond_the_limit_and_doubts_are_counted() -> None:
    record = replace(
        build_large_record(blocks=3, kernels=6),
        expected_trials=99,
        workload="mine:build with random data",
        impossible=build_record([]).impossible,
    )
    summary = summarise(record)
    (section,) = short_report(summary).sections
    (table,) = section.tables
    hidden = len(doubts(summary, arm_names(summary))) - len(section.doubts)
    assert len(table.rows) == 8 and hidden > 0
    assert "4 more arms" in section.notes[-1] and f"{hidden} more doubt" in section.notes[-1]
    assert len(answer_part(summary, arm_names(summary)).tables[0].rows) == 12


# facts


@pytest.mark.parametrize(
    ("record", "labels", "tone"),
    [
        (build_record([]), [], None),
        (
            build_record([build_trial(0, PORTABLE)], (PORTABLE,)),
            ["fastest", "best"],
            Tone.PLAIN,
        ),
        (build_paired_record(8), ["fastest", "accuracy", "best"], Tone.GOOD),
        (build_paired_record(8, lambda _: 1.0), ["fastest", "accuracy", "best"], Tone.GOOD),
        (
            build_paired_record(8, lambda block: 1.3 if block % 2 else 0.8),
            ["fastest", "accuracy", "best"],
            Tone.DOUBT,
        ),
        (build_paired_record(3), ["fastest", "accuracy", "best"], Tone.DOUBT),
        (
            build_record([build_trial(0, PORTABLE), build_trial(1, XLA)]),
            ["fastest", "best"],
            Tone.DOUBT,
        ),
        (build_record([build_trial(0, a, status="failed") for a in (PORTABLE, XLA)]), [], None),
    ],
)
def test_what_to_use_is_the_first_fact(
    record: SweepRecord, labels: list[str], tone: Tone | None
) -> None:
    section = answer(record)
    assert [fact.label for fact in section.facts] == labels
    assert [fact.tone for fact in section.facts[:1]] == ([tone] if tone else [])
    if tone == Tone.GOOD:
        assert "tensorflow/portable" in section.facts[0].text.partition(":")[0]


def build_ruined_time(blocks: int, busy: int) -> SweepRecord:
    """Return a sweep in which XLA is faster, and takes 22 times as long on the best config.

    That is the first one. Other processes disturb the first blocks, as many as are `busy`.
    """
    trials = [
        build_trial(block, arm, step_ms=ms, val_accuracy=0.9 - 0.01 * block)
        for block in range(blocks)
        for arm, ms in ((PORTABLE, 10.0 + block % 3 / 100), (XLA, 8.0 if block else 22 * 8.0))
    ]
    return build_record(disturbed(trials, busy))


def test_a_ruined_time_of_a_disturbed_trial_turns_no_answer() -> None:
    fastest = facts(build_ruined_time(blocks=8, busy=1))["fastest"]
    assert fastest.tone == Tone.GOOD
    assert fastest.text.startswith(f"{XLA.short_name}: 1.25 × as fast as {PORTABLE.short_name}")


def test_no_arm_leads_where_all_is_open() -> None:
    """The ruined time makes the slower arm first by its mean."""
    record = build_ruined_time(blocks=5, busy=5)
    first, *others = answer(record).facts
    assert (first.label, first.tone) == ("fastest", Tone.DOUBT)
    assert first.text.startswith(f"open: {PORTABLE.short_name} against {XLA.short_name}, ")
    (best,) = [fact for fact in others if fact.label == "best"]
    assert best.text.endswith(f" on {PORTABLE.short_name}")


def build_differing_results(times: Mapping[Arm, float], **changes: Any) -> SweepRecord:
    """Return a sweep in which XLA has the better f1, and the better accuracy."""
    trials = [
        build_trial(block, arm, step_ms=ms, f1=f1 + 0.001 * (block % 3), val_accuracy=f1)
        for block in range(8)
        for (arm, ms), f1 in zip(times.items(), (0.5, 0.9), strict=True)
    ]
    return replace(build_record(trials), **changes)


@pytest.mark.parametrize(
    ("objectives", "first"),
    [
        ({"f1": "maximize"}, "f1"),
        ({"step_ms": "minimize", "f1": "maximize"}, "fastest"),
        ({"unmeasured": "maximize"}, "fastest"),
        ({}, "fastest"),
    ],
)
def test_results_come_first_only_where_they_alone_are_the_objectives(
    objectives: dict[str, str], first: str
) -> None:
    """In the report as in the live view."""
    record = build_differing_results({PORTABLE: 5.0, XLA: 10.0}, objectives=objectives)
    section = answer(record)
    assert section.facts[0].label == first
    labels = [fact.label for fact in section.facts]
    assert labels.count("fastest") == 1
    assert ("f1" in labels) == ("f1" in objectives)  # else an accuracy is compared
    assert section.facts[:2] == leading_facts(record, lambda arm: arm.short_name)


@pytest.mark.parametrize(
    ("gain", "tone"), [(0.4, Tone.GOOD), (0.0, Tone.PLAIN), (0.02, Tone.DOUBT)]
)
def test_a_sweep_without_times_is_answered_by_its_result_alone(gain: float, tone: Tone) -> None:
    arms = tuple(Arm("python/own", CPU, Variant(name)) for name in ("plain", "wide"))
    noise = 0.0 if gain == 0.0 else 0.03
    trials = [
        build_trial(block, arm, metrics={"f1": 0.5 + gain * place + noise * place * (-1) ** block})
        for block in range(8)
        for place, arm in enumerate(arms)
    ]
    record = build_record(trials, arms, objectives={"f1": "maximize"})
    first, best = answer(record).facts
    assert (first.label, first.tone, best.label) == ("f1", tone, "best")
    assert {"speed-up", "verdict"}.isdisjoint(cells(summarise(record))[arms[0].short_name])


@pytest.mark.parametrize(
    ("compile_s", "blocks", "tone"),
    [
        pytest.param(15.0, 8, Tone.PLAIN, id="it compiles for longer"),
        pytest.param(15.0, 4, Tone.DOUBT, id="few blocks"),
        pytest.param(0.01, 8, None, id="compiling takes no time"),
    ],
)
def test_the_whole_training_has_a_fact_where_another_arm_takes_least(
    compile_s: float, blocks: int, tone: Tone | None
) -> None:
    """225 steps: 13.3 ms without XLA, and 5.3 ms less with it, after compiling for longer."""
    steps = 225
    trials = [
        build_trial(
            block,
            arm,
            step_ms=step_ms * (1 + 0.001 * (block % 3)),
            train_s=steps * step_ms * (1 + 0.001 * (block % 3)) / 1000,
            compile_s=extra + 0.01 * (block % 2),
        )
        for block in range(blocks)
        for arm, step_ms, extra in ((PORTABLE, 13.3, 0.05), (XLA, 8.0, compile_s))
    ]
    found = facts(build_record(trials))
    assert XLA.short_name in found["fastest"].text
    in_all = found.get("in all")
    assert (in_all.tone if in_all else None) == tone
    if in_all:
        assert all(figure in in_all.text for figure in ("3.05 s", "16.8 s", "220"))
        assert ("few" in in_all.text) == (tone == Tone.DOUBT)


def test_factors_have_a_fact_each_and_decide_the_result() -> None:
    found = facts(golden.threads())
    assert [*found] == ["fastest", "variant", "threads", "accuracy", "best"]
    assert found["threads"].text.startswith("2 threads: 1.87 × as fast as 1 thread")
    assert found["accuracy"].text.startswith("gru: +0.0210 compared with lstm")


@pytest.mark.parametrize("blocks", [1, 3])
def test_few_configs_give_facts_no_interval_without_ends(blocks: int) -> None:
    record = golden.threads()
    few = replace(record, trials=tuple(t for t in record.trials if t.block < blocks))
    found = facts(few)
    assert {found[label].tone for label in ("fastest", "variant", "threads")} == {Tone.DOUBT}
    assert not any("∞" in fact.text or "inf" in fact.text for fact in found.values())


def test_each_of_several_hardware_classes_has_its_fastest_arm() -> None:
    summary = summarise(build_large_record(blocks=8, kernels=3))
    section = answer_part(summary, arm_names(summary))
    fastest = [fact.text.partition(":")[0] for fact in section.facts if fact.label == "fastest"]
    overall, *single = fastest
    assert overall in single and len(set(single)) == 2
    assert section.tables[0].headers[:2] == ("implementation", "hardware")


def test_an_arm_of_other_mathematics_reaches_no_target_first() -> None:
    trials = [
        change_trial(trial, fingerprint=build_fingerprint(1.0 if trial.arm == PORTABLE else 2.0))
        for trial in build_learning_record().trials
    ]
    found = facts(build_target_record(trials))
    assert PORTABLE.short_name == found["to 0.8"].text.partition(" ")[0]


def test_a_target_is_answered_although_the_report_is_short() -> None:
    summary = summarise(build_large_record(blocks=8, kernels=2), targets=(0.85, 0.999))
    (section,) = short_report(summary).sections
    found = {fact.label: fact.text for fact in section.facts}
    assert "8 of 8" in found["to 0.85"]
    assert not any(digit in found["to 0.999"] for digit in "0123456789")


# the table of arms


def test_the_arms_have_the_order_of_their_means() -> None:
    """By the median XLA would be first; the fastest has the least geometric mean."""
    times = {PORTABLE: (10.0,) * 7, XLA: (9.0,) * 4 + (30.0,) * 3}
    trials = [
        build_trial(block, arm, step_ms=ms)
        for arm, of_blocks in times.items()
        for block, ms in enumerate(of_blocks)
    ]
    assert [*cells(summarise(build_record(trials)))] == [PORTABLE.short_name, XLA.short_name]


def test_where_variants_set_the_batch_size_the_table_has_the_times_that_are_compared() -> None:
    arms = [
        Arm("tensorflow/portable", CPU, Variant(f"batch {size}", {"batch_size": size}))
        for size in (32, 64)
    ]
    trials = [
        build_trial(block, arm, step_ms=10.0, sample_us=us + block)
        for block in range(6)
        for arm, us in zip(arms, (300.0, 150.0), strict=True)
    ]
    summary = summarise(build_record(trials, arms))
    assert summary.time_metric
    contrast = summary.contrast(arms[1], arms[0], summary.time_metric)
    slow, fast = (float(cells(summary)[arm.short_name]["µs/sample"]) for arm in arms)
    assert contrast and slow / fast == pytest.approx(contrast.estimate.value, rel=0.01)


def test_an_arm_of_several_baselines_is_over_what_it_differs_in() -> None:
    summary = summarise(golden.threads())
    table = arms_table(summary, arm_names(summary))
    assert [row[table.headers.index("over")] for row in table.rows] == [
        "lstm",
        "1 thread",
        "lstm",
        ABSENT,
    ]


def test_a_sweep_of_repeats_of_one_config_has_the_range_over_repeats() -> None:
    trials = [
        build_trial(0, arm, repeat=repeat, step_ms=ms * (1 + 0.01 * repeat))
        for repeat in range(6)
        for arm, ms in ((PORTABLE, 10.0), (XLA, 8.0))
    ]
    summary = summarise(build_record(trials))
    titles = {title for cell in cells(summary).values() for title in cell}
    assert "over repeats" in titles and "over configs" not in titles


def test_expenses_have_a_column_if_they_are_objectives_and_small_prices_are_written_out() -> None:
    metrics = {"step_ms": 10.0, "train_cost_usd": 1.23e-05, "energy_j": 20.0}
    trials = [build_trial(b, arm, metrics=metrics) for b in range(8) for arm in (PORTABLE, XLA)]
    record = build_record(trials, objectives={"train_cost_usd": "minimize"})
    row = cells(summarise(record))[XLA.short_name]
    assert "0.0000123" in row.values()
    assert not any("energy" in title for title in row)


def test_a_slower_arm_has_a_speedup_below_one_and_an_arm_without_result_says_so() -> None:
    trials = build_timed_trials({PORTABLE: 10.0, XLA: 20.0})
    trials += [build_trial(block, UNROLL, status="failed", metrics={}) for block in range(8)]
    rows = cells(summarise(build_record(trials, (PORTABLE, XLA, UNROLL))))
    slower = rows[XLA.short_name]
    assert slower["speed-up"].startswith("0.5") and slower["verdict"] == "slower"
    assert rows[UNROLL.short_name]["verdict"] == "no result"


# what is missing or doubtful


@pytest.mark.parametrize(
    ("workload", "settings", "labels"),
    [
        ("mine:build with mine:load", {"weights": "equal"}, set()),
        ("mine:build with mine:load", {"weights": "own"}, {"unequal start"}),
        ("mine:build with random data", {}, {"random data"}),
        ("mine:run", {"weights": "own"}, set()),
    ],
)
def test_what_limits_an_own_model_is_a_doubt(
    workload: str, settings: dict[str, str], labels: set[str]
) -> None:
    record = replace(build_paired_record(8), workload=workload, settings=settings)
    assert doubts_of(record).keys() - {"not run"} == labels


@pytest.mark.parametrize(
    ("blocks", "busy_blocks", "search", "override"),
    [
        (8, 3, {"sampler": "tpe"}, "search.configs=9"),
        (8, 8, {"sampler": "tpe", "space_size": 13}, "repeats=2"),
        (8, 8, {"sampler": "grid"}, "repeats=2"),
        (6, 6, {"sampler": "tpe"}, "repeats=2"),
        (8, 1, {"sampler": "tpe"}, None),
    ],
)
def test_a_busy_machine_has_the_cheapest_start_that_gives_quiet_verdicts(
    blocks: int, busy_blocks: int, search: dict[str, Any], override: str | None
) -> None:
    trials = disturbed(build_timed_trials({PORTABLE: 10.0, XLA: 8.0}, blocks), busy_blocks)
    record = build_record(trials, **search)
    busy = doubts_of(record).get("busy")
    assert bool(busy) == bool(override)
    if busy:
        assert busy.startswith(f"{busy_blocks} of {blocks} configs: ") and "41 %" in busy
        assert busy.endswith(f"--set {override} --wait-quiet 30m")
    assert ("busy" in facts(record)["fastest"].text) == bool(override)


@pytest.mark.parametrize(
    ("blocks", "busy_blocks", "search", "end"),
    [
        (3, 2, {}, "--set search.configs=6 --wait-quiet 30m"),
        (4, 0, {}, "--set search.configs=6"),
        (1, 0, {}, "--set repeats=6"),
        (4, 0, {"sampler": "random", "space_size": 4}, "rnnsweep run SPEC --fresh"),
        (4, 0, {"sampler": "grid"}, "rnnsweep run SPEC --fresh"),
        (4, 0, {"sampler": "list"}, "rnnsweep run SPEC"),
    ],
)
def test_few_configs_have_the_start_that_gives_a_verdict(
    blocks: int, busy_blocks: int, search: dict[str, Any], end: str
) -> None:
    trials = disturbed(build_timed_trials({PORTABLE: 10.0, XLA: 8.0}, blocks), busy_blocks)
    assert doubts_of(build_record(trials, **search))["few"].endswith(end)


@pytest.mark.parametrize(
    ("blocks", "repeats", "override"),
    [
        pytest.param(6, 1, "search.configs=7", id="too few are left"),
        pytest.param(1, 3, "repeats=6", id="repeats of one config"),
        pytest.param(1, 6, "repeats=7", id="too few repeats are left"),
    ],
)
def test_more_configs_come_on_top_of_planned_ones_of_which_some_failed(
    blocks: int, repeats: int, override: str
) -> None:
    trials = [
        build_trial(block, arm, repeat=repeat, step_ms=10.0 if arm == PORTABLE else 8.0)
        for block in range(blocks)
        for repeat in range(repeats)
        for arm in (PORTABLE, XLA)
    ]
    trials[0] = change_trial(trials[0], status="failed", failure="crash: signal 11", metrics={})
    record = build_record(trials, sampler="tpe")
    assert doubts_of(record)["few"].endswith(f"--set {override}")


@pytest.mark.parametrize(("spread", "is_said"), [(0.05, True), (0.5, False)])
def test_an_open_verdict_has_the_configs_it_needs_unless_they_are_hopelessly_many(
    spread: float, is_said: bool
) -> None:
    record = build_paired_record(8, lambda block: math.exp(spread * (-1) ** block))
    assert ("open" in doubts_of(record)) == is_said


def test_the_configs_for_one_more_verdict_come_on_top_of_failed_ones() -> None:
    trials = [*build_paired_record(8, lambda block: math.exp(0.05 * (-1) ** block)).trials]
    trials[0] = change_trial(trials[0], status="failed", failure="crash: signal 11", metrics={})
    record = build_record(trials, sampler="tpe")
    (more,) = {c.more_blocks for c in summarise(record).contrasts if c.metric == "step_ms"} - {None}
    assert doubts_of(record)["open"].endswith(f"--set search.configs={8 + (more or 0)}")


def test_arms_that_cross_along_a_size_are_a_doubt_with_the_size() -> None:
    configs = [{"units": size} for size in UNITS * 2]
    found = doubts_of(build_record_by_laws(build_crossing_laws(64, slope=0.8), configs))
    assert "units" in found["depends"] and "--section sizes" in found["depends"]
    assert "open" not in found


def test_failures_and_missing_trials_have_the_command_that_runs_them() -> None:
    message = "expected shape ( 2 , 3 ) ; received | x : y . - see the log ."
    failed = build_trial(0, PORTABLE, status="failed", failure=f"error: {message}", metrics={})
    start = StartCommand(("rnnsweep", "run", "mine.yaml"))
    record = build_record([failed], expected_trials=12, state="stopped", start=start)
    section = answer(record)
    assert [(fact.label, fact.tone) for fact in section.doubts] == [
        ("failed", Tone.BAD),
        ("missing", Tone.DOUBT),
    ]
    failure, missing = (fact.text for fact in section.doubts)
    assert message in failure and failure.endswith("rnnsweep run mine.yaml --retry-failed")
    assert missing.startswith("11 of 12") and missing.endswith("rnnsweep run mine.yaml")
    running = doubts_of(replace(record, state="running"))
    assert running["missing"].endswith("rnnsweep status quickstart")


def test_causes_of_failures_beyond_three_are_counted() -> None:
    causes = ("crash", "error", "data", "out_of_memory", "timeout")
    trials = [
        build_trial(block, status="failed", failure=f"{cause}: odd", metrics={})
        for block, cause in enumerate(causes)
    ]
    summary = summarise(build_record(trials, (PORTABLE,)))
    failed = [f.text for f in doubts(summary, arm_names(summary)) if f.label == "failed"]
    assert len(failed) == 4 and failed[-1].startswith("2 other causes")


def test_an_objective_that_no_trial_recorded_is_missing() -> None:
    for objective, is_missing in (("f1", True), ("val_accuracy", False)):
        record = replace(build_paired_record(6), objectives={objective: "maximize"})
        assert ("missing" in doubts_of(record)) == is_missing


def test_other_mathematics_is_a_doubt_and_its_arm_leads_nothing() -> None:
    trials = [
        build_trial(block, arm, fingerprint=build_fingerprint(factor), step_ms=10.0 * factor)
        for block in range(7)
        for arm, factor in ((PORTABLE, 1.0), (XLA, 0.8))
    ]
    record = build_record(trials)
    assert doubts_of(record)["other mathematics"].startswith(XLA.short_name)
    assert facts(record)["fastest"].tone == Tone.DOUBT


def test_arms_that_cannot_run_are_doubts_by_reason() -> None:
    record = build_paired_record(8)
    assert doubts_of(record)["not run"].startswith("tensorflow/cudnn: ")


def test_a_sweep_of_a_cluster_names_no_command_that_needs_its_store() -> None:
    start = StartCommand(("rnnsweep", "submit", "mine.yaml", "--address", "http://head:8265"))
    (section,) = short_report(summarise(build_paired_record(8, start=start))).sections
    (more,) = section.notes
    assert "--address http://head:8265" in more


def test_the_page_of_one_gpu_and_its_host_names_the_gpu_alone() -> None:
    arms = (PORTABLE, Arm("tensorflow/portable", GPU))
    record = build_record(build_timed_trials(dict(zip(arms, (10.0, 5.0), strict=True))), arms)
    first = answer(record).facts[0]
    assert first.text.startswith("tensorflow/portable on NVIDIA H200: 2")
