"""Sections of a report other than the comparisons, on sweeps with figures computed by hand."""

from __future__ import annotations

import html
from dataclasses import replace
from typing import Any

import pytest

from orchestrator.analysis.arms.representatives import representatives
from orchestrator.analysis.summary import ReportSummary
from orchestrator.core.arms import Arm
from orchestrator.core.criteria import PublishedRow, ReportCriteria
from orchestrator.core.records import SweepRecord
from orchestrator.core.trial import EpochRecord, FinishedTrial, Kernel, Telemetry
from orchestrator.report.formats.html.rows import trial_columns
from orchestrator.report.render import ReportFormat, render, summarise
from orchestrator.report.wording import arm_names
from tests.orchestrator.report.large_sweep import large
from tests.orchestrator.sample_hardware import in_slices
from tests.orchestrator.sample_records import (
    CPU,
    GPU,
    PORTABLE,
    RELU,
    XLA,
    changed,
    paired,
    sweep,
    trial,
)

ON_GPU = Arm("tensorflow/portable", GPU)
SLICED = Arm("tensorflow/portable+xla", in_slices(CPU))


def text(record: SweepRecord, **more: Any) -> str:
    return " ".join(render(summarise(record, **more), "text").split())


def learned(arm: Arm, block: int, accuracies: tuple[float, ...], **changes: Any) -> FinishedTrial:
    epochs = tuple(
        EpochRecord(index, 2.0, 0.5, {"val_accuracy": value})
        for index, value in enumerate(accuracies)
    )
    return trial(arm, block, epochs=epochs, **changes)


# hardware × implementation


def test_the_matrix_has_a_cell_for_each_arm() -> None:
    matrix = summarise(large(blocks=8, kernels=3)).matrix
    assert matrix.hardware == (CPU, GPU)
    assert len(matrix.cells) == 6
    assert (matrix.cells[0].verdict, matrix.cells[0].speedup) == ("baseline", None)
    assert matrix.cells[1].verdict == summarise(large(blocks=8, kernels=3)).comparisons[0].verdict
    assert {cell.energy_scope for cell in matrix.cells} == {"cpu_package", "gpu"}
    metrics = [measure.metric for measure in matrix.measures]
    assert {"epoch_s", "fit_s", "energy_per_sample_j", "train_cost_usd"} < set(metrics)


def test_epoch_and_fit_times_are_derived_from_recorded_times() -> None:
    record = sweep([learned(PORTABLE, 0, (0.5, 0.6), train_s=4.0, validate_s=1.0)], (PORTABLE,))
    (cell,) = summarise(record).matrix.cells
    assert (cell.figures["epoch_s"].median, cell.figures["fit_s"].median) == (2.0, 5.0)


def test_the_matrix_is_shown_for_several_hardware_classes() -> None:
    report = text(large(blocks=8, kernels=3))
    assert f"speed-up (95 %) {CPU} {GPU}" in report
    assert "Hardware × implementation" not in text(paired(8))


@pytest.mark.parametrize("form", ["text", "markdown", "html"])
def test_the_matrix_has_the_measures_for_choosing_hardware(form: ReportFormat) -> None:
    report = render(summarise(large(blocks=8, kernels=3)), form)
    begin, end = {
        "text": ("Hardware × implementation", "By size"),
        "markdown": ("## Hardware × implementation", "## By size"),
        "html": ('-hardware-implementation" aria', "</section>"),
    }[form]
    matrix = " ".join(report[report.index(begin) :].partition(end)[0].replace("\\", "").split())
    titles = [
        *("speed-up (95 %)", "rate (samples/s)", "sample (µs)", "epoch (s)", "val_accuracy"),
        *("peak memory (MiB)", "energy per sample (mJ)", "cost of the timed epochs (USD)"),
        *("load (s)", "compile (s)", "evaluate (s)", "predict (s)"),
    ]
    places = [matrix.find(title) for title in titles]
    assert -1 not in places
    assert places == sorted(places)
    assert "exclude the first trial of each trainer process" in html.unescape(matrix)


@pytest.mark.parametrize("width", [60, 100])
@pytest.mark.parametrize("kernels", [2, 8])
def test_lines_fit_the_width(width: int, kernels: int) -> None:
    lines = render(summarise(large(blocks=8, kernels=kernels)), "text", width=width).splitlines()
    assert max(map(len, lines)) <= width


@pytest.mark.parametrize("objectives", [None, {"energy_j": "minimize"}])
def test_energies_of_different_scopes_are_not_summarised(objectives: dict[str, str] | None) -> None:
    trials = [
        trial(PORTABLE, block, energy_j=5.0, energy_scope=scope)
        for block, scope in enumerate(("gpu", "cpu_package"))
    ]
    summary = summarise(sweep(trials, (PORTABLE,), objectives=objectives))
    (cell,) = summary.matrix.cells
    assert ("energy_j" in cell.figures, cell.energy_scope) == (False, "")
    assert "energy_j" not in summary.arms[0].measures


@pytest.mark.parametrize(
    ("objective", "title", "by_hardware"),
    [
        ("energy_j", "energy (J)", 0),
        ("energy_per_sample_j", "energy per sample (mJ)", 1),
        ("cost_usd", "cost per trial (USD)", 0),
        ("train_cost_usd", "cost of the timed epochs (USD)", 1),
    ],
)
def test_an_objective_on_energy_or_cost_is_shown_once_with_its_unit(
    objective: str, title: str, by_hardware: int
) -> None:
    expenses: dict[str, Any] = {"energy_j": 5.0, "energy_per_sample_j": 0.005, "cost_usd": 2.0}
    trials = [
        trial(arm, 0, **expenses, train_cost_usd=1.0, energy_scope=scope)
        for arm, scope in ((PORTABLE, "cpu_package"), (ON_GPU, "gpu"))
    ]
    record = sweep(trials, (PORTABLE, ON_GPU), objectives={objective: "minimize"})
    summary = summarise(record)
    titles = [measure.title for measure in summary.matrix.measures if measure.metric == objective]
    assert titles == [title]
    matrix_table = section("Hardware × implementation", summary)
    assert matrix_table.count(f"| {title} |") == by_hardware
    arms_table = section("Arms", summary)
    assert f"| {title} |" in arms_table
    if objective.startswith("energy"):
        assert "5 cpu_package | 5 gpu |" in arms_table
        assert "Energies are of different kinds, as labelled" in arms_table


def section(title: str, summary: ReportSummary) -> str:
    """Return a section of the report in Markdown, without escapes."""
    report = render(summary, "markdown").replace("\\", "")
    return report.partition(f"## {title}\n")[2].partition("\n## ")[0]


# timed in slices


def test_timed_arms_are_kept_apart_from_trained_ones() -> None:
    trials = [
        finished
        for block in range(7)
        for finished in (
            learned(PORTABLE, block, (0.5, 0.6), train_s=4.0),
            trial(SLICED, block, metrics={"step_ms": 8.0, "samples_per_s": 4000.0}),
        )
    ]
    summary = summarise(sweep(trials, (PORTABLE, SLICED)))
    assert summary.front.apart == (SLICED,)
    assert {
        point.arm for expense_front in summary.fronts for point in expense_front.front.points
    } == {PORTABLE}
    assert {curve.arm for curve in summary.learning} == {PORTABLE}
    assert [cell.mode for cell in summary.matrix.cells] == ["full", "timing"]
    assert "were timed in slices: they have times per step" in text(
        sweep(trials, (PORTABLE, SLICED))
    )


# by size


def test_the_param_that_explains_most_comes_first() -> None:
    summary = summarise(large(blocks=40, kernels=2))
    params = [size.param for size in summary.sizes]
    assert params[0] == "units"
    assert summary.sizes[0].explains > summary.sizes[1].explains
    groups = summary.sizes[0].groups
    assert sorted(block for group in groups for block in group.blocks) == list(range(40))
    assert [group.low for group in groups] == sorted(group.low or 0 for group in groups)
    assert len(groups) <= 4


def test_a_size_has_its_own_speed_up() -> None:
    """XLA is twice as fast at 16 units and half as fast at 128, so 1 × overall."""
    trials = [
        trial(arm, block, config={"units": units}, step_ms=ms)
        for block, units in enumerate((16, 16, 16, 128, 128, 128))
        for arm, ms in ((PORTABLE, 10.0), (XLA, 5.0 if units == 16 else 20.0))
    ]
    (by_units,) = summarise(sweep(trials)).sizes
    speedups = [group.cells[1].speedup for group in by_units.groups]
    assert [speedup.value for speedup in speedups if speedup] == pytest.approx([2.0, 0.5])
    assert [group.label for group in by_units.groups] == ["16", "128"]


def test_text_values_are_grouped_by_value() -> None:
    trials = [
        trial(arm, block, config={"cell": ("gru", "lstm")[block % 2]})
        for block in range(6)
        for arm in (PORTABLE, XLA)
    ]
    (by_cell,) = summarise(sweep(trials)).sizes
    assert [(group.label, group.low, len(group.blocks)) for group in by_cell.groups] == [
        ("gru", None, 3), ("lstm", None, 3),
    ]  # fmt: skip


# the best of each arm, and fronts


def test_the_best_of_each_arm_is_its_own_best_config() -> None:
    trials = [
        trial(arm, block, val_accuracy=0.9 + (block if arm == XLA else -block) / 100)
        for block in range(7)
        for arm in (PORTABLE, XLA)
    ]
    choices = [
        choice
        for choice in summarise(sweep(trials)).best_of_arm
        if choice.objective == "val_accuracy"
    ]
    assert [(choice.arm, choice.block, choice.tried) for choice in choices] == [
        (PORTABLE, 0, 7), (XLA, 6, 7),
    ]  # fmt: skip
    assert choices[1].run_ids == ("run-tensorflow/portable+xla-6-0",)
    assert choices[1].values["step_ms"] == 10.0
    assert "Not a comparison of arms: each arm is listed with its own best config" in text(
        sweep(trials)
    )


def test_there_is_a_front_for_each_expense_and_hardware() -> None:
    fronts = summarise(large(blocks=8, kernels=2)).fronts
    kinds = [(front.expense, front.hardware, front.scope) for front in fronts]
    assert kinds[:3] == [
        ("train_s", None, ""),
        ("train_s", CPU.hardware_class, ""),
        ("train_s", GPU.hardware_class, ""),
    ]
    assert {
        expense_front.scope for expense_front in fronts if expense_front.expense == "energy_j"
    } == {"gpu", "cpu_package"}
    for expense_front in fronts:
        assert {point.arm.hardware_class for point in expense_front.front.points} <= {
            expense_front.hardware or CPU.hardware_class,
            expense_front.hardware or GPU.hardware_class,
        }


def test_arms_of_other_mathematics_are_on_no_front() -> None:
    trials = [trial(arm, block, train_s=9.0) for block in range(3) for arm in (PORTABLE, RELU)]
    fronts = summarise(sweep(trials, (PORTABLE, RELU))).fronts
    assert {point.arm for expense_front in fronts for point in expense_front.front.points} == {
        PORTABLE
    }


# learning, phases, telemetry


def test_learning_is_by_epoch_and_by_seconds() -> None:
    trials = [learned(PORTABLE, block, (0.5 + block / 10, 0.8)) for block in range(3)]
    (curve,) = summarise(sweep(trials, (PORTABLE,))).learning
    assert [(p.epoch, p.seconds, p.value.median) for p in curve.points] == [
        (1, 2.0, 0.6), (2, 4.0, 0.8),
    ]  # fmt: skip
    assert "0.6 at 2 s" in text(sweep(trials, (PORTABLE,)))


def test_repeats_of_a_block_are_averaged() -> None:
    trials = [learned(PORTABLE, 0, (0.9,), repeat=r) for r in range(3)]
    trials += [learned(PORTABLE, 1, (0.1,), repeat=r) for r in range(3)]
    (curve,) = summarise(sweep(trials, (PORTABLE,))).learning
    assert (curve.points[0].value.n, curve.points[0].value.median) == (2, 0.5)


def test_a_missing_phase_counts_as_zero_seconds() -> None:
    trials = [trial(PORTABLE, 0, train_s=4.0, import_s=6.0), trial(PORTABLE, 1, train_s=2.0)]
    (split,) = summarise(sweep(trials, (PORTABLE,))).phases
    assert (split.seconds, split.trials) == ({"import_s": 3.0, "train_s": 3.0}, 2)


def test_the_median_quiet_trial_represents_its_arm() -> None:
    trials = [trial(PORTABLE, block, step_ms=ms) for block, ms in enumerate((9.0, 10.0, 30.0))]
    trials[1] = changed(trials[1], disturbance={"other_processes": 90.0})
    trials.append(trial(XLA, 0, status="failed"))
    record = sweep(trials)
    assert representatives(record) == (trials[0].run_id,)
    telemetry = {
        trials[0].run_id: Telemetry(
            at_s=(1.0, 2.0), curves={"system/cpu_trainer_percentage": (90.0, None)}
        )
    }
    (curves,) = summarise(record, curves=telemetry).curves
    assert (curves.arm, curves.run_id) == (PORTABLE, trials[0].run_id)
    assert "90, at most 90" in text(record, curves=telemetry)


# published results


def row(**changes: Any) -> PublishedRow:
    fields = {
        "source": "a paper", "implementation": "tensorflow/portable", "hardware": "Tesla P100",
        "config": {"units": 64}, "metrics": {"fit_s": 39.82}, **changes,
    }  # fmt: skip
    return PublishedRow(**fields)


def test_a_published_row_is_matched_with_the_nearest_config() -> None:
    trials = [
        trial(PORTABLE, block, config={"units": units}, train_s=4.0, validate_s=block)
        for block, units in enumerate((16, 48, 512))
    ]
    record = replace(sweep(trials, (PORTABLE,)), criteria=ReportCriteria(published=(row(),)))
    (match,) = summarise(record).published
    (measured,) = match.measured
    assert (measured.block, measured.values) == (1, {"fit_s": 5.0})
    assert measured.differs == ("units 48 and not 64",)
    report = text(record)
    assert "Published results come from other hardware and software" in report
    assert "Tesla P100 39.82" in report


def test_settings_count_as_sizes() -> None:
    record = sweep([trial(PORTABLE, 0, config={})], (PORTABLE,), settings={"units": 64})
    (match,) = summarise(replace(record, criteria=ReportCriteria(published=(row(),)))).published
    assert match.measured[0].differs == ()


def test_a_published_row_without_a_match_is_marked() -> None:
    record = replace(
        paired(2), criteria=ReportCriteria(published=(row(implementation="torch/cudnn"),))
    )
    assert "here not measured" in text(record)


# validity


def test_validity_counts_the_trials_behind_the_figures() -> None:
    reading = {"other_processes": 43.0}
    trials = [trial(arm, block, node="n1") for block in range(3) for arm in (PORTABLE, XLA)]
    trials[0] = changed(trials[0], disturbance=reading, attempt=2)
    trials[2] = changed(trials[2], kernel=None)
    trials[5] = changed(trials[5], status="failed", failure="crash: signal 11")
    validity = summarise(sweep(trials)).validity
    assert (validity.trials, validity.used, validity.left_out) == (6, 4, 1)
    assert (validity.rounds, validity.disturbed_rounds) == (2, 1)
    portable, xla = validity.arms
    assert (portable.complete, portable.proven, portable.disturbed, portable.retried) == (
        3,
        2,
        1,
        1,
    )
    assert [(disturbance.cause, disturbance.run_id) for disturbance in portable.disturbances] == [
        ("other_processes", trials[0].run_id)
    ]
    assert (portable.jit, xla.jit, xla.precision) == (False, True, "float32")
    report = text(sweep(trials))
    assert (
        "4 belong to the 2 rounds that are complete on every arm, and 1 did not complete" in report
    )
    assert "1 trial took more than one attempt" in report
    assert "by XLA, float32" in report
    assert "1 failed, 0 wrong kernel, 1 disturbed, 0 missing" in report


def test_a_wrong_kernel_reads_the_same_in_every_format() -> None:
    kernel = Kernel("cudnn", "portable", "no CudnnRNNV3")
    trials = [trial(PORTABLE, 0, status="wrong_kernel", kernel=kernel), trial(PORTABLE, 1)]
    summary = summarise(sweep(trials, (PORTABLE,)))
    report = render(summary, "markdown")
    assert "portable: 1 (While in the traced graph)" in report
    assert "portable, requested cudnn: 1 (no CudnnRNNV3)" in report
    texts = trial_columns(summary, arm_names(summary))["texts"]
    assert {
        "portable (While in the traced graph)",
        "portable, requested cudnn (no CudnnRNNV3)",
    } < set(texts)


def test_a_requested_baseline_replaces_that_of_the_spec() -> None:
    record = replace(paired(7), criteria=ReportCriteria(baseline="tensorflow/portable+xla"))
    baselines = [
        summarise(record, requested).baseline for requested in (None, "tensorflow/portable")
    ]
    assert [baseline.name for baseline in baselines if baseline] == [str(XLA), str(PORTABLE)]


def test_a_baseline_that_cannot_run_is_replaced() -> None:
    record = replace(paired(7), criteria=ReportCriteria(baseline="tensorflow/cudnn"))
    baseline = summarise(record).baseline
    assert baseline is not None
    assert baseline.name == str(PORTABLE)


def test_telemetry_is_in_the_order_of_the_arms() -> None:
    """The order does not depend on the block of each arm's median trial."""
    trials = [
        trial(arm, block, train_s=train_s)
        for block, times in enumerate([(3.0, 2.0), (2.0, 9.0), (1.0, 1.0)])
        for arm, train_s in zip((PORTABLE, XLA), times, strict=True)
    ]
    record = sweep(trials, (PORTABLE, XLA))
    median_runs = representatives(record)
    assert median_runs == (trials[2].run_id, trials[1].run_id)
    telemetry = Telemetry(at_s=(0.0,), curves={"system/cpu_trainer_percentage": (50.0,)})
    curves = summarise(record, curves=dict.fromkeys(median_runs, telemetry)).curves
    assert [curve.arm for curve in curves] == [PORTABLE, XLA]
