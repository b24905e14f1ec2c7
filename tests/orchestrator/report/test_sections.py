"""Sections of a report, on sweeps with figures computed by hand; golden reports have the prose."""

from dataclasses import replace
from typing import Any

import pytest

from orchestrator.analysis.summary import ReportSummary, summarise
from orchestrator.core.arms import Arm, Variant
from orchestrator.core.criteria import PublishedRow, ReportCriteria
from orchestrator.core.records import SweepRecord
from orchestrator.core.trial import EpochRecord, FinishedTrial
from orchestrator.report.document import PARTS, Kind, Section
from orchestrator.report.sections.document import document
from orchestrator.report.sections.doubts import doubts
from tests.building.arms import CPU, GPU, PORTABLE, XLA
from tests.building.records import build_paired_record, build_record
from tests.building.trials import build_trial, change_trial

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
        ("energy_per_sample_j", "energy per sample (mJ)", True),
        ("cost_usd", "cost per trial (USD)", False),
        ("train_cost_usd", "cost of the timed epochs (USD)", False),
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
    bullets = section(PARTS["fastest"], build_record(trials, arms)).bullets
    (models,) = [bullet for bullet in bullets if bullet.kind == Kind.DIFFERENT_MODELS]
    assert models.text.startswith("- bias instead of lstm: ")


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
