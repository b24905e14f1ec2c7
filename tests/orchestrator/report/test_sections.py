"""Sections of a report, on sweeps with figures computed by hand; golden reports have the prose."""

from dataclasses import replace
from typing import Any

import pytest

from orchestrator.analysis.statistics.formatting import ABSENT
from orchestrator.analysis.statistics.verdicts import (
    BlocksNeeded,
    blocks_for,
    half_width_over,
)
from orchestrator.analysis.summary import ReportSummary, summarise
from orchestrator.core.arms import Arm, Variant
from orchestrator.core.criteria import PublishedRow, ReportCriteria
from orchestrator.core.records import Direction, SweepRecord
from orchestrator.core.trial import DatasetRecord, EpochRecord, FinishedTrial
from orchestrator.report.document import PARTS, Kind, Section
from orchestrator.report.sections.answer import usage_sections
from orchestrator.report.sections.compiling import break_even_sentence
from orchestrator.report.sections.document import document
from orchestrator.report.sections.doubts import doubts
from orchestrator.report.sections.factors import factor_bullets
from orchestrator.report.sections.fastest import arms_table
from orchestrator.report.sections.headlines import headlines
from orchestrator.report.sections.whole_training import whole_training_bullets
from orchestrator.report.wording import arm_names
from tests.building.arms import CPU, GPU, PORTABLE, UNROLL, XLA
from tests.building.records import build_paired_record, build_record
from tests.building.trials import build_timed_trials, build_trial, change_trial
from tests.orchestrator.report import golden

ON_GPU = Arm("tensorflow/portable", GPU)


def section(title: str, record: SweepRecord | ReportSummary) -> Section:
    summary = summarise(record) if isinstance(record, SweepRecord) else record
    return next(s for s in document(summary).sections if s.title.startswith(title))


@pytest.mark.parametrize(
    ("record", "kinds"),
    [
        (build_record([]), ["no trials"]),
        (build_record([build_trial(0, PORTABLE)], (PORTABLE,)), ["one arm", "best"]),
        (build_paired_record(8), ["fastest", "best"]),
        (
            build_record([build_trial(0, PORTABLE), build_trial(0, XLA, status="failed")]),
            ["inconclusive", "best"],
        ),
        (
            build_record([build_trial(0, arm, status="failed") for arm in (PORTABLE, XLA)]),
            ["failed"],
        ),
    ],
)
def test_the_first_section_has_the_verdicts(record: SweepRecord, kinds: list[str]) -> None:
    first, *others = document(summarise(record)).sections
    assert [bullet.kind for bullet in first.bullets] == kinds
    assert len(others) > 4 or not {t.status for t in record.trials} - {"failed"}
    assert [p for p in PARTS if p in {s.part for s in (first, *others)}] == list(
        dict.fromkeys(section.part for section in (first, *others))
    )


@pytest.mark.parametrize(
    ("workload", "settings", "kinds"),
    [
        ("mine:build with mine:load", {"weights": "equal"}, set()),
        ("mine:build with mine:load", {"weights": "own"}, {Kind.UNEQUAL_START}),
        ("mine:build with random data", {}, {Kind.ONLY_TIMES}),
        ("mine:run", {"weights": "own"}, set()),
    ],
)
def test_what_limits_an_own_model_is_said(
    workload: str, settings: dict[str, str], kinds: set[Kind]
) -> None:
    record = replace(build_paired_record(8), workload=workload, settings=settings)
    said = {bullet.kind for bullet in doubts(summarise(record))}
    assert said & {Kind.UNEQUAL_START, Kind.ONLY_TIMES} == kinds


@pytest.mark.parametrize(
    ("blocks", "busy_blocks", "is_said", "cure"),
    [
        (3, 2, True, "--set search.configs=6 --wait-quiet 30m"),
        (4, 1, True, "--set search.configs=6"),
        (1, 1, True, "--set repeats=6 --wait-quiet 30m"),
        (8, 1, False, ""),
    ],
)
def test_a_busy_machine_is_named_below_the_configs_of_a_verdict_too(
    blocks: int, busy_blocks: int, is_said: bool, cure: str
) -> None:
    trials = [
        change_trial(trial, disturbance={"other_processes": 68.0})
        if trial.block < busy_blocks and trial.arm == XLA
        else trial
        for trial in build_timed_trials({PORTABLE: 10.0, XLA: 8.0}, blocks)
    ]
    bullets = doubts(summarise(build_record(trials, (PORTABLE, XLA))))
    said = [bullet.text for bullet in bullets if bullet.kind == Kind.BUSY]
    assert len(said) == is_said
    (headline,) = headlines(summarise(build_record(trials, (PORTABLE, XLA))))
    assert ("68 %" in headline.sentences[0]) == is_said
    assert all(f"{busy_blocks} of {blocks} config" in text and "68 %" in text for text in said)
    few = [bullet.text for bullet in bullets if "too few" in bullet.text]
    assert [text.endswith(f"rnnsweep run SPEC {cure}") for text in few] == [True] * bool(cure)


@pytest.mark.parametrize(
    ("blocks", "busy_blocks", "search", "trials", "override"),
    [
        (8, 3, {"sampler": "tpe"}, 2, "search.configs=9"),
        (8, 8, {"sampler": "tpe", "space_size": 13}, 16, "repeats=2"),
        (8, 8, {"sampler": "grid"}, 16, "repeats=2"),
        (6, 6, {"sampler": "tpe"}, 12, "repeats=2"),
    ],
)
def test_what_is_measured_again_after_a_busy_time_is_the_least_that_gives_a_verdict(
    blocks: int, busy_blocks: int, search: dict[str, Any], trials: int, override: str
) -> None:
    times = build_timed_trials({PORTABLE: 10.0, XLA: 8.0}, blocks)
    record = build_record(
        [
            change_trial(t, disturbance={"other_processes": 68.0} if t.block < busy_blocks else {})
            for t in times
        ],
        (PORTABLE, XLA),
        **search,
    )
    (said,) = [b.text for b in doubts(summarise(record)) if b.kind == Kind.BUSY]
    assert said.endswith(f"--set {override} --wait-quiet 30m") and f"({trials} trials)" in said


@pytest.mark.parametrize("objectives", [None, {"energy_j": "minimize"}])
def test_energies_of_different_scopes_are_not_summarised(objectives: dict[str, str] | None) -> None:
    trials = [
        build_trial(block, PORTABLE, energy_j=5.0, energy_scope=scope)
        for block, scope in enumerate(("gpu", "cpu_package"))
    ]
    (arm,) = summarise(build_record(trials, (PORTABLE,), objectives=objectives)).arms
    assert ("energy_j" in arm.measures, arm.energy_scope) == (False, "")


@pytest.mark.parametrize(
    ("objective", "title", "has_scope"),
    [
        ("energy_j", "energy (J)", True),
        ("cost_usd", "cost per trial (USD)", False),
    ],
)
def test_an_objective_on_energy_or_cost_is_shown_once_with_its_unit(
    objective: str, title: str, has_scope: bool
) -> None:
    expenses: dict[str, Any] = {"energy_j": 5.0, "energy_per_sample_j": 0.005, "cost_usd": 5.0}
    trials = [
        build_trial(0, arm, **expenses, train_cost_usd=5.0, energy_scope=scope)
        for arm, scope in ((PORTABLE, "cpu_package"), (ON_GPU, "gpu"))
    ]
    summary = summarise(
        build_record(trials, (PORTABLE, ON_GPU), objectives={objective: "minimize"})
    )
    (row,) = [row for row in section("Arms", summary).tables[0].rows if row[0] == title]
    assert row[1:] == (("5 cpu_package", "5 gpu") if has_scope else ("5", "5"))


def test_a_long_front_counts_the_configs_that_are_not_printed() -> None:
    trials = [build_trial(b, PORTABLE, val_accuracy=b / 100, step_ms=1.0 + b) for b in range(30)]
    front = section("Pareto-best configs", build_record(trials, (PORTABLE,)))
    assert len(front.tables[0].rows) == 20
    assert front.paragraphs[0].startswith("10 more: rnnsweep best quickstart")


def test_learning_is_by_epoch_and_by_seconds_with_repeats_averaged() -> None:
    def learned(block: int, *accuracies: float, repeat: int = 0) -> FinishedTrial:
        epochs = (EpochRecord(i, 2.0, 0.5, {"val_accuracy": v}) for i, v in enumerate(accuracies))
        return build_trial(block, PORTABLE, repeat, epochs=tuple(epochs))

    trials = [learned(block, 0.5 + block / 10, 0.8) for block in range(3)]
    (curve,) = summarise(build_record(trials, (PORTABLE,))).learning
    assert [(p.epoch, p.seconds, p.value.median) for p in curve.points] == [
        (1, 2.0, 0.6), (2, 4.0, 0.8),
    ]  # fmt: skip
    trials = [
        learned(b, (0.9, 0.1)[b] + (r - 1) / 20, repeat=r) for b in range(2) for r in range(3)
    ]
    (curve,) = summarise(build_record(trials, (PORTABLE,))).learning
    assert curve.points[0].value.n == 2
    assert curve.points[0].value.median == pytest.approx(0.5)


def test_phases_and_noise_count_all_complete_trials_and_missing_phases_as_zero() -> None:
    alone = build_trial(7, PORTABLE, train_s=90.0, others_cpu_pct=50.0)  # XLA has no block 7
    made = [
        change_trial(t, metrics={"train_s": 10.0, "import_s": 6.0, "others_cpu_pct": 1.0})
        for t in build_paired_record(7).trials
    ]
    summary = summarise(build_record([*made, alone]))
    assert (summary.phases[0].trials, summary.phases[0].seconds) == (
        8, {"import_s": 5.25, "train_s": 20.0},
    )  # fmt: skip
    assert summary.arms[0].noise["others_cpu_pct"].n == 8
    assert (summary.arms[0].used, len(summary.arms[0].run_ids["any"])) == (7, 7)


def test_what_stays_unlike_on_a_gpu_is_listed_where_backends_are_compared() -> None:
    arms = [Arm(f"{backend}/fused", GPU) for backend in ("torch", "jax")]
    for count in (1, 2):
        trials = [build_trial(0, arm) for arm in arms[:count]]
        notes = " ".join(section("Validity", build_record(trials, arms[:count])).paragraphs)
        assert ("persistent kernels" in notes) == ("host in each" in notes) == (count == 2)


@pytest.mark.parametrize(
    ("implementation", "settings", "differs"),
    [
        pytest.param("tensorflow/portable", {}, ["units 48 and not 64"], id="the nearest size"),
        pytest.param("tensorflow/portable", {"units": 64}, ["the same"], id="the same size"),
        pytest.param("torch/cudnn", {}, ["–"], id="not measured"),
    ],
)
def test_a_published_row_is_matched_with_the_nearest_config(
    implementation: str, settings: dict[str, Any], differs: list[str]
) -> None:
    row = PublishedRow("a paper", implementation, "Tesla P100", {"units": 64}, {"fit_s": 39.82})
    configs = [{} if settings else {"units": units} for units in (16, 48, 512)]
    trials = [
        build_trial(i, PORTABLE, config=config, train_s=4.0) for i, config in enumerate(configs)
    ]
    record = build_record(trials, (PORTABLE,), settings=settings)
    record = replace(record, criteria=ReportCriteria(published=(row,)))
    (table,) = section("Published", record).tables
    assert table.rows[0][:4] == ("published", implementation, "Tesla P100", "39.8")
    assert [line[-1] for line in table.rows[1:]] == differs


@pytest.mark.parametrize(
    ("criterion", "requested", "baseline"),
    [
        ("tensorflow/portable+xla", None, XLA),
        ("tensorflow/portable+xla", "tensorflow/portable", PORTABLE),
        ("tensorflow/cudnn", None, PORTABLE),  # cannot run
    ],
)
def test_a_requested_baseline_replaces_that_of_the_spec(
    criterion: str, requested: str | None, baseline: Arm
) -> None:
    record = replace(build_paired_record(7), criteria=ReportCriteria(baseline=criterion))
    picked = summarise(record, requested).baseline
    assert picked is not None
    assert picked.name == str(baseline)


def test_a_name_that_looks_like_a_list_stays_in_its_sentence() -> None:
    variants = (Variant("lstm", {"cell": "lstm"}), Variant("- bias", {"bias": False}))
    arms = [Arm("tensorflow/portable", CPU, variant) for variant in variants]
    trials = [
        build_trial(block, arm, step_ms=ms + 0.01 * (block % 3))
        for block in range(8)
        for arm, ms in zip(arms, (10, 8), strict=True)
    ]
    for content in document(summarise(build_record(trials, arms))).sections:
        assert all(bullet.text for bullet in content.bullets)
        assert {bullet.kind for bullet in content.bullets} <= set(Kind)
    (head, *_) = section(PARTS["fastest"], build_record(trials, arms)).bullets
    assert "- bias: tensorflow/portable is fastest" in head.text


def test_an_error_message_is_shown_as_it_was_raised() -> None:
    message = "expected shape ( 2 , 3 ) ; received | x : y . - see the log ."
    trials = [
        build_trial(0, PORTABLE, status="failed", failure=f"error: {message}"),
        build_trial(0, XLA),
    ]
    (failed,) = [
        bullet
        for bullet in section("Missing", build_record(trials)).bullets
        if bullet.kind == Kind.FAILED
    ]
    assert f"failed (error): {message}." in failed.text


def test_a_headline_does_not_doubt_what_the_table_decides() -> None:
    """A ranking corrects for more comparisons than the table has."""
    unroll, xla = (1, -1, 2, -2, 1, -1), (-2, 1, -1, 1, 2, -1)
    trials = [
        build_trial(block, arm, step_ms=step_ms)
        for block in range(6)
        for arm, step_ms in (
            (PORTABLE, 10.0),
            (UNROLL, 10 / 1.3 * (1 + 0.13 * unroll[block])),
            (XLA, 10 / 1.2 * (1 + 0.13 * xla[block])),
        )
    ]
    summary = summarise(build_record(trials, (PORTABLE, UNROLL, XLA)))
    (ranking, *_) = summary.rankings
    standings = {behind.arm: behind.standing for behind in ranking.behind}
    assert (ranking.leader, standings[PORTABLE]) == (UNROLL, "inconclusive")
    assert summary.comparisons[0].verdict == "faster"
    (sentence, *_) = headlines(summary)[0].sentences
    assert sentence.endswith("but tensorflow/portable+xla may be as fast.")


def test_a_result_that_is_the_only_objective_has_the_first_headline() -> None:
    trials = [
        build_trial(block, arm, step_ms=10.0, f1=f1 + 0.001 * (block % 3))
        for block in range(8)
        for arm, f1 in ((PORTABLE, 0.5), (XLA, 0.9))
    ]
    record = build_record(trials, objectives={"f1": "maximize"})
    (first, second, *_) = headlines(summarise(record))
    assert (first.leader, first.kind) == (XLA, Kind.BEST)
    assert "+0.4" in first.sentences[0] and "95 % CI" in first.sentences[0]
    assert second.kind == Kind.SAME
    timed = replace(record, objectives={"step_ms": "minimize", "f1": "maximize"})
    faster = [
        change_trial(t, metrics={**t.metrics, "step_ms": 5.0}) if t.arm == PORTABLE else t
        for t in timed.trials
    ]
    (head, result, *_) = headlines(summarise(replace(timed, trials=tuple(faster))))
    assert (head.leader, head.kind) == (PORTABLE, Kind.FASTEST)
    assert (result.leader, result.kind) == (XLA, Kind.BEST)


@pytest.mark.parametrize(
    ("gain", "kind"), [(0.4, Kind.BEST), (0.0, Kind.SAME), (0.02, Kind.INCONCLUSIVE)]
)
def test_a_sweep_without_times_is_answered_by_its_result_alone(gain: float, kind: Kind) -> None:
    arms = tuple(Arm("python/own", CPU, Variant(name)) for name in ("plain", "wide"))
    noise = 0.0 if gain == 0.0 else 0.03
    trials = [
        build_trial(block, arm, metrics={"f1": 0.5 + gain * place + noise * place * (-1) ** block})
        for block in range(8)
        for place, arm in enumerate(arms)
    ]
    record = build_record(trials, arms, objectives={"f1": "maximize"}, workload="f1_of:workload")
    summary = summarise(record)
    (head,) = headlines(summary)
    assert head.kind == kind and "f1" in head.bullet.text and "step_ms" not in head.bullet.text
    table = arms_table(summary)
    assert {row[table.headers.index("verdict")] for row in table.rows} == {"baseline", ABSENT}


@pytest.mark.parametrize(
    ("compile_s", "blocks", "says"),
    [
        pytest.param(15.0, 8, ["3.05 s", "16.8 s", "2,800 steps"], id="it compiles for longer"),
        pytest.param(15.0, 4, ["3.05 s", "16.8 s"], id="few blocks"),
        pytest.param(0.01, 8, [], id="compiling takes no time"),
    ],
)
def test_the_whole_training_is_told_where_compiling_changes_the_answer(
    compile_s: float, blocks: int, says: list[str]
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
    texts = [bullet.text for bullet in whole_training_bullets(summarise(build_record(trials)))]
    assert bool(texts) == bool(says)
    for figure in says:
        assert figure in texts[0]


@pytest.mark.parametrize(
    ("blocks", "saved_ms", "is_said"), [(8, 5.0, True), (4, 5.0, False), (8, -5.0, True)]
)
def test_whether_compiling_pays_off_is_said_only_if_it_is_decided(
    blocks: int, saved_ms: float, is_said: bool
) -> None:
    """Fewer than six blocks decide nothing; steps that are longer never pay a compilation off."""
    trials = [
        build_trial(
            block,
            arm,
            step_ms=(20.0 - saved) * (1 + 0.001 * (block % 3)),
            train_s=2.0,
            compile_s=compile_s + 0.01 * (block % 2),
        )
        for block in range(blocks)
        for arm, saved, compile_s in ((PORTABLE, 0.0, 1.0), (XLA, saved_ms, 9.0))
    ]
    summary = summarise(build_record(trials))
    (point,) = summary.break_evens
    assert ("pays off" in break_even_sentence(point, arm_names(summary))) == is_said
    told = " ".join(bullet.text for bullet in whole_training_bullets(summary))
    assert ("pay" in told) == (is_said and saved_ms > 0)


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
    (comparison,) = summary.comparisons
    table = arms_table(summary)
    column = table.headers.index("µs/sample")
    fast, slow = (float(row[column]) for row in table.rows)
    assert comparison.speedup and slow / fast == pytest.approx(comparison.speedup.value, rel=0.01)


def test_an_arm_that_a_list_does_not_have_is_told_with_the_reason() -> None:
    failed, unranked = UNROLL, Arm("torch/fused", CPU)
    trials = [
        build_trial(
            block,
            arm,
            status="failed" if arm == failed else "complete",
            metrics={"val_accuracy": 0.9} | ({} if arm == unranked else {"step_ms": 1.0 + block}),
        )
        for block in range(6)
        for arm in (PORTABLE, XLA, failed, unranked)
    ]
    record = build_record(trials, (PORTABLE, XLA, failed, unranked))
    for title, reason in (("Rankings", "no step_ms"), ("Effects", "")):
        told = " ".join(section(title, record).paragraphs)
        assert f"{failed.short_name} (no complete trial)" in told
        assert (f"{unranked.short_name} ({reason})" in told) == bool(reason)


def test_the_arms_of_the_table_have_the_order_of_their_ranking() -> None:
    """By the median XLA would be first; the ranking is by the geometric mean."""
    times = {PORTABLE: (10.0,) * 7, XLA: (9.0,) * 4 + (30.0,) * 3}
    trials = [
        build_trial(block, arm, step_ms=ms)
        for arm, of_blocks in times.items()
        for block, ms in enumerate(of_blocks)
    ]
    summary = summarise(build_record(trials))
    (ranking,) = summary.rankings
    assert ranking.leader == PORTABLE
    assert [row[0] for row in arms_table(summary).rows] == [PORTABLE.short_name, XLA.short_name]


def test_an_effect_is_told_for_the_range_that_was_tried() -> None:
    """Lengths of 92 to 112 say nothing about doubling them."""
    trials = [
        build_trial(block, arm, config={"length": length}, step_ms=length / 10)
        for block, length in enumerate((92, 96, 100, 104, 108, 112, 94, 110))
        for arm in (PORTABLE, XLA)
    ]
    (effect, *_) = [e for e in summarise(build_record(trials)).effects if e.metric == "step_ms"]
    (change,) = effect.changes
    assert (change.of, change.to, change.is_whole_range) == (92.0, 112.0, True)
    assert change.effect.value == pytest.approx(112 / 92)


def test_a_range_whose_ends_read_alike_is_written_once() -> None:
    trials = [
        build_trial(block, arm, config={"length": 100 + 0.04 * block}, step_ms=10 + 0.1 * block)
        for block in range(8)
        for arm in (PORTABLE, XLA)
    ]
    effects = section("Effects", build_record(trials))
    (named, *_) = effects.tables[0].rows[0]
    assert named == "the whole range of length, about 100"


def test_configs_that_the_validation_set_cannot_tell_apart_are_counted() -> None:
    """0.875 and 0.844 are 5 % of chance apart on 359 samples, and 0.6 is not."""
    accuracies = (0.875, 0.844, 0.6)
    trials = [
        build_trial(block, arm, val_accuracy=round(359 * accuracy) / 359, train_s=3.0)
        for block, accuracy in enumerate(accuracies)
        for arm in (PORTABLE, XLA)
    ]
    data = DatasetRecord("digits", "ab" * 32, "scikit-learn", 1437, 359)
    choice = summarise(build_record(trials, datasets=(data,))).choice
    assert choice is not None
    assert (choice.configs, choice.arms) == (3, 2)
    assert (choice.within_noise, choice.samples) == (1, 359)
    assert choice.lowest_within_noise == pytest.approx(303 / 359)


@pytest.mark.parametrize(
    ("metric", "values", "verdict"),
    [
        ("f1", (0.5, 0.9), "better"),
        ("f1", (0.9, 0.5), "worse"),
        ("val_loss", (0.5, 0.9), "worse"),
        ("f1", (0.9, 0.9), None),
    ],
)
def test_the_table_says_which_results_are_better_by_their_direction(
    metric: str, values: tuple[float, float], verdict: str | None
) -> None:
    trials = [
        build_trial(block, arm, metrics={"train_s": 1.0, metric: value + 0.001 * (block % 3)})
        for block in range(8)
        for arm, value in zip((PORTABLE, XLA), values, strict=True)
    ]
    direction: Direction = "maximize" if metric == "f1" else "minimize"
    table = arms_table(summarise(build_record(trials, objectives={metric: direction})))
    (cell,) = (
        row[table.headers.index(f"Δ {metric}")] for row in table.rows if row[0] == XLA.short_name
    )
    assert [word for word in ("better", "worse") if word in cell] == ([verdict] if verdict else [])


def test_what_puts_an_arm_to_use_has_the_settings_of_its_variant() -> None:
    summary = summarise(golden.variants())
    (usage,) = usage_sections(summary, headlines(summary)[0])
    assert "gru: torch/fused" in usage.title and "cell gru" in usage.title


@pytest.mark.parametrize("blocks", [1, 3])
def test_few_configs_give_factors_no_interval_without_ends(blocks: int) -> None:
    record = golden.threads()
    few = replace(record, trials=tuple(t for t in record.trials if t.block < blocks))
    texts = [bullet.text for bullet in factor_bullets(summarise(few))]
    assert len(texts) == 2
    assert not any("∞" in text or "inf" in text for text in texts)


@pytest.mark.parametrize("others_pct", [0.0, 41.0])
def test_verdicts_on_times_say_that_the_machine_was_busy(others_pct: float) -> None:
    record = golden.threads()
    disturbance = {"other_processes": others_pct} if others_pct else {}
    trials = [change_trial(trial, disturbance=disturbance) for trial in record.trials]
    summary = summarise(replace(record, trials=tuple(trials)))
    sentences = [head.sentences[0] for head in headlines(summary)]
    sentences += [bullet.text for bullet in factor_bullets(summary)]
    sentences += [bullet.text for bullet in section("Speed-up over", summary).bullets]
    assert {"41 % of the CPUs" in text for text in sentences} == {bool(others_pct)}
    verdicts = [
        str(row[-1])
        for title in ("Factors", "Rankings", "Speed-up over")
        for row in section(title, summary).tables[0].rows
        if "val_accuracy" not in row
    ]
    assert {text.endswith(" (busy)") for text in verdicts} == {bool(others_pct)}


def test_an_objective_that_no_trial_recorded_is_missing() -> None:
    trials = [build_trial(block, arm) for block in range(6) for arm in (PORTABLE, XLA)]
    for objective, is_missing in (("f1", True), ("val_accuracy", False)):
        summary = summarise(build_record(trials, objectives={objective: "maximize"}))
        missing = [bullet.text for bullet in doubts(summary) if bullet.kind == Kind.MISSING]
        assert any("f1" in text and "val_accuracy" in text for text in missing) == is_missing


def test_arms_without_peak_memory_are_named_where_others_have_one() -> None:
    trials = [
        build_trial(
            block,
            arm,
            metrics={"step_ms": 10.0, "peak_rss_mib": 900.0},
            trainer_trials=int(arm == XLA or block > 0),
        )
        for block in range(6)
        for arm in (PORTABLE, XLA)
    ]
    for chosen, said in ((trials, 1), (trials[::2], 0)):
        bullets = doubts(summarise(build_record(chosen, (PORTABLE, XLA))))
        assert sum("peak memory" in b.text and XLA.short_name in b.text for b in bullets) == said


def test_the_rounding_of_an_accuracy_is_no_difference_and_a_small_price_is_written_out() -> None:
    trials = [
        build_trial(
            block,
            arm,
            metrics={
                "step_ms": 10.0,
                "val_accuracy": 0.9 - 7.45e-09 * (arm == XLA) * (1 + block % 2),
                "train_cost_usd": 1.23e-05,
            },
        )
        for block in range(8)
        for arm in (PORTABLE, XLA)
    ]
    for blocks in (2, 8):
        table = arms_table(summarise(build_record(trials[: 2 * blocks], (PORTABLE, XLA))))
        (row,) = [row for row in table.rows if row[0] == XLA.short_name]
        cells = dict(zip(table.headers, row, strict=True))
        assert cells["Δ accuracy"] == "0.00"
        assert cells["USD to train"] == "0.0000123"


def test_a_sweep_that_stopped_for_want_of_its_data_says_which_and_how_it_goes_on() -> None:
    failed = build_trial(0, PORTABLE, status="failed", failure="data: no such file", metrics={})
    record = build_record(
        [failed], (PORTABLE, XLA), expected_trials=12, state="stopped", workload="image_rows"
    )
    missing, failure = doubts(summarise(record))[:2]
    assert (missing.kind, failure.kind) == (Kind.MISSING, Kind.FAILED)
    assert "11 of 12 trials" in missing.text and "stopped" in missing.text
    assert "(data): no such file" in failure.text and "--retry-failed" in failure.text
    (first, *_) = document(summarise(record)).sections
    assert first.bullets[0].kind == Kind.FAILED


@pytest.mark.parametrize("size", [None, 40])
def test_a_space_that_is_too_small_says_how_narrow_the_interval_would_become(
    size: int | None,
) -> None:
    noise = (0.6, 1.5, 1.4, 0.7, 1.0, 1.0)
    trials = [
        build_trial(block, arm, step_ms=10.0 * (noise[block] if arm == XLA else 1.0))
        for block in range(6)
        for arm in (PORTABLE, XLA)
    ]
    summary = summarise(build_record(trials, (PORTABLE, XLA), sampler="random", space_size=size))
    (said,) = [b.text for b in doubts(summary) if b.kind == Kind.INCONCLUSIVE]
    (needed,) = [c.blocks_needed for c in summary.comparisons if c.blocks_needed]
    configs = int(said.rpartition("search.configs=")[2])
    assert configs == (size or 6 + needed.more_blocks)
    assert ("± 10 %" in said) == (size == 40)


def test_the_width_over_more_blocks_is_that_of_blocks_that_were_measured() -> None:
    deviation, error = 0.3, 0.05
    blocks = blocks_for(deviation, 0.02, error)
    assert blocks is not None
    needed = BlocksNeeded(blocks - 6, 0.02)
    for total in (10, 100, blocks):
        half = half_width_over(needed, 6, total - 6, error)
        assert blocks_for(deviation, 1.01 * half, error) == pytest.approx(total, rel=0.03)
