"""Cells of the parts of a report, on sweeps with figures computed by hand."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from orchestrator.analysis.statistics.formatting import ABSENT
from orchestrator.analysis.summary import summarise
from orchestrator.core.arms import Arm, HardwareUse, Usage
from orchestrator.core.criteria import PublishedRow, ReportCriteria
from orchestrator.core.records import Direction, SweepRecord
from orchestrator.core.trial import EpochRecord
from orchestrator.report.document import Section
from orchestrator.report.names import PartBuilder, arm_names
from orchestrator.report.parts.comparisons import comparisons_part
from orchestrator.report.parts.cost import cost_part
from orchestrator.report.parts.quality import quality_part
from orchestrator.report.parts.sizes import MOST_LISTED, sizes_part
from orchestrator.report.parts.trust import trust_part
from tests.building.arms import CPU, GPU, GRU, LSTM, PORTABLE, UNROLL, XLA
from tests.building.known_records import UNITS, build_crossing_laws, build_record_by_laws
from tests.building.records import build_paired_record, build_record
from tests.building.trials import (
    build_fingerprint,
    build_timed_trials,
    build_trial,
    change_trial,
)
from workloads.model_facts import COMPILED_GRAPHS, GRAPH_BREAKS, NOT_KEPT

ON_GPU = Arm("tensorflow/portable", GPU)
SHORT = {arm: arm.short_name for arm in (PORTABLE, XLA, UNROLL)}


def part(build: PartBuilder, record: SweepRecord, **options: Any) -> Section:
    summary = summarise(record, **options)
    section = build(summary, arm_names(summary))
    assert section is not None
    return section


def rows(section: Section, first: str) -> dict[str, dict[str, str]]:
    """Return the cells of the table whose first column has this title, by row and column."""
    (table,) = [table for table in section.tables if table.headers[0] == first]
    return {row[0]: dict(zip(table.headers, row, strict=True)) for row in table.rows}


def threads(**changes: Any) -> SweepRecord:
    """Return a sweep of two cells on one and on two threads; two help the LSTM more."""
    uses = [HardwareUse(CPU.hardware_class, Usage(threads=count)) for count in (1, 2)]
    arms = tuple(Arm("torch/fused", use, cell) for use in uses for cell in (LSTM, GRU))
    trials = [
        build_trial(
            block,
            arm,
            step_ms=ms * (1 + 0.01 * ((block + place) % 3)),
            val_accuracy=(0.9, 0.92)[arm.variant == GRU] + 0.001 * ((block * place) % 4),
        )
        for block in range(8)
        for place, (arm, ms) in enumerate(zip(arms, (10.0, 8.0, 5.0, 4.6), strict=True))
    ]
    return build_record([change_trial(trial, **changes) for trial in trials], arms)


@pytest.mark.parametrize("build", [comparisons_part, quality_part, sizes_part, cost_part])
def test_a_sweep_without_figures_has_no_such_part(build: PartBuilder) -> None:
    record = build_record([build_trial(0, PORTABLE, status="failed", metrics={})])
    summary = summarise(record)
    assert build(summary, arm_names(summary)) is None


# Comparisons


def test_arms_are_compared_with_the_baseline_the_fastest_first() -> None:
    times = {PORTABLE: 10.0, UNROLL: 12.5, XLA: 8.0}
    compared = part(comparisons_part, build_record(build_timed_trials(times), [*times]))
    cells = rows(compared, "arm")
    assert [*cells] == [SHORT[XLA], SHORT[UNROLL]]
    assert cells[SHORT[XLA]]["speed-up (95 % CI)"].startswith("1.25 ×")
    assert cells[SHORT[UNROLL]]["speed-up (95 % CI)"].startswith("0.800 ×")
    assert [row["verdict"] for row in cells.values()] == ["faster", "slower"]
    assert cells[SHORT[XLA]]["configs"] == "8"


def test_no_pair_of_arms_is_in_two_tables() -> None:
    times = {PORTABLE: 10.0, UNROLL: 9.0, XLA: 8.0}
    compared = part(comparisons_part, build_record(build_timed_trials(times), [*times]))
    assert [*rows(compared, "fastest arm")] == [SHORT[XLA]]
    (table,) = [table for table in compared.tables if table.headers[0] == "fastest arm"]
    assert len(table.rows) == 1  # with the third arm alone; the baseline is in the first table


@pytest.mark.parametrize(("blocks", "verdict"), [(5, "open (few)"), (6, "faster")])
def test_few_configs_have_no_verdict_and_no_endless_interval(blocks: int, verdict: str) -> None:
    record = build_record(build_timed_trials({PORTABLE: 10.0, XLA: 8.0}, blocks))
    for record_of in (record, replace(record, trials=record.trials[:2])):
        (row,) = rows(part(comparisons_part, record_of), "arm").values()
        assert "∞" not in row["speed-up (95 % CI)"] and "inf" not in row["speed-up (95 % CI)"]
    (row,) = rows(part(comparisons_part, record), "arm").values()
    assert row["verdict"] == verdict


@pytest.mark.parametrize("others_pct", [0.0, 41.0])
def test_verdicts_on_times_say_that_the_machine_was_busy(others_pct: float) -> None:
    disturbance = {"other_processes": others_pct} if others_pct else {}
    compared = part(comparisons_part, threads(disturbance=disturbance))
    by_time, by_result = list[str](), list[str]()
    for table in compared.tables:
        for row in table.rows:
            cells = dict(zip(table.headers, row, strict=True))
            is_time = cells.get("by", "step (ms)") == "step (ms)"
            (by_time if is_time else by_result).append(cells["verdict"])
    assert {verdict.endswith(" (busy)") for verdict in by_time} == {bool(others_pct)}
    assert by_result and not any("busy" in verdict for verdict in by_result)


def test_factors_have_their_best_value_and_what_their_effect_depends_on() -> None:
    compared = part(comparisons_part, threads())
    table = next(table for table in compared.tables if table.headers[0] == "best value")
    found = {(row[0], row[1], row[2]): row[-1] for row in table.rows}
    assert found == {
        ("gru", "lstm", "step (ms)"): "faster",
        ("2 threads", "1 thread", "step (ms)"): "faster",
        ("gru", "lstm", "val_accuracy"): "better",
        ("2 threads", "1 thread", "val_accuracy"): "same",
    }
    gains = rows(compared, "gain")
    assert gains["gru instead of lstm, 1 thread"]["verdict"] == "faster"


def test_excluded_configs_and_arms_have_their_reasons() -> None:
    trials = build_timed_trials({PORTABLE: 10.0, XLA: 8.0})
    trials = [
        change_trial(t, status="failed", metrics={}) if (t.block, t.arm) == (3, XLA) else t
        for t in trials
    ]
    trials += [build_trial(0, UNROLL, status="failed", metrics={})]
    compared = part(comparisons_part, build_record(trials, (PORTABLE, XLA, UNROLL)))
    facts = [fact.text for fact in compared.doubts if fact.label == "excluded"]
    assert facts == [
        f"1 config: {SHORT[XLA]} failed",
        f"{SHORT[UNROLL]}: no complete trial",
    ]
    assert "7 of 8 configs" in compared.notes[0]


# Quality


@pytest.mark.parametrize(
    ("metric", "values", "verdict"),
    [
        ("f1", (0.5, 0.9), "better"),
        ("f1", (0.9, 0.5), "worse"),
        ("val_loss", (0.5, 0.9), "worse"),
        ("f1", (0.9, 0.9), "same"),
    ],
)
def test_a_result_is_better_by_its_direction(
    metric: str, values: tuple[float, float], verdict: str
) -> None:
    trials = [
        build_trial(block, arm, metrics={"train_s": 1.0, metric: value + 0.001 * (block % 3)})
        for block in range(8)
        for arm, value in zip((PORTABLE, XLA), values, strict=True)
    ]
    direction: Direction = "maximize" if metric == "f1" else "minimize"
    quality = part(quality_part, build_record(trials, objectives={metric: direction}))
    cells = rows(quality, "arm")[SHORT[XLA]]
    assert cells["verdict"] == verdict
    assert float(cells[f"Δ {metric} (95 % CI)"].split()[0]) == pytest.approx(values[1] - values[0])


def test_a_long_front_counts_the_configs_that_are_not_listed() -> None:
    trials = [build_trial(b, PORTABLE, val_accuracy=b / 100, step_ms=1.0 + b) for b in range(30)]
    quality = part(quality_part, build_record(trials, (PORTABLE,)))
    (front,) = [table for table in quality.tables if table.headers[0] == "Pareto-best"]
    assert len(front.rows) == 20
    assert any(note.startswith("and 10 more:") for note in quality.notes)


def test_the_best_config_by_the_only_objective_has_a_row_for_each_arm() -> None:
    trials = [
        build_trial(block, arm, val_accuracy=0.8 + 0.01 * block, train_s=seconds)
        for block in range(3)
        for arm, seconds in ((PORTABLE, 2.0), (XLA, 1.0))
    ]
    record = build_record(trials, objectives={"val_accuracy": "maximize"})
    quality = part(quality_part, record)
    cells = rows(quality, "on the best config")
    assert [row["choice"] for row in cells.values()] == ["chosen", "equal"]
    assert (cells[SHORT[XLA]]["val_accuracy"], cells[SHORT[XLA]]["train_s"]) == ("0.820", "1")
    assert "Best config: batch_size 32, units 48." in quality.notes


def test_learning_has_the_first_the_middle_and_the_last_epoch_with_their_seconds() -> None:
    epochs = [EpochRecord(i, 2.0, 0.5, {"val_accuracy": 0.5 + i / 10}) for i in range(4)]
    trials = [build_trial(block, PORTABLE, epochs=tuple(epochs)) for block in range(3)]
    quality = part(quality_part, build_record(trials, (PORTABLE,)))
    assert rows(quality, "val_accuracy by epoch")[SHORT[PORTABLE]] == {
        "val_accuracy by epoch": SHORT[PORTABLE],
        "configs": "3",
        "after epoch 1": "0.5 at 2 s",
        "after epoch 2": "0.6 at 4 s",
        "after epoch 4": "0.8 at 8 s",
    }


def test_a_target_that_most_trials_miss_is_reached_never() -> None:
    trials = [
        build_trial(
            block,
            arm,
            epochs=(EpochRecord(0, 2.0, 0.5, {"val_accuracy": reached[block]}),),
            train_s=2.0,
        )
        for block in range(4)
        for arm, reached in ((PORTABLE, (0.9, 0.9, 0.9, 0.9)), (XLA, (0.5, 0.5, 0.5, 0.9)))
    ]
    quality = part(quality_part, build_record(trials), targets=(0.85,))
    cells = rows(quality, "to val_accuracy 0.85")
    assert [row["reached"] for row in cells.values()] == ["4 of 4", "1 of 4"]
    assert (cells[SHORT[PORTABLE]]["time (s)"], cells[SHORT[XLA]]["time (s)"]) == (
        "2.00 (2.00–2.00)",
        "never",
    )


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
    quality = part(quality_part, record)
    (table,) = [table for table in quality.tables if table.headers[0] == "published"]
    assert table.rows[0][:4] == ("a paper", implementation, "Tesla P100", "39.8")
    assert [line[-1] for line in table.rows[1:]] == differs


# Sizes


def test_sizes_have_the_speedup_of_each_config_from_the_fastest_to_the_slowest() -> None:
    record = build_paired_record(30, lambda block: 1.0 + block / 100)
    trials = [
        change_trial(t, metrics={**t.metrics, "step_ms": t.metrics["step_ms"] * (1 + t.block)})
        for t in record.trials
    ]
    sizes = part(sizes_part, replace(record, trials=tuple(trials)))
    cells = [*rows(sizes, "config").values()]
    assert len(cells) == MOST_LISTED
    assert [cells[i][SHORT[XLA]] for i in (0, -1)] == ["1.00 ×", "1.29 ×"]
    assert [cells[i][f"step (ms), {SHORT[PORTABLE]}"] for i in (0, -1)] == ["10.0", "300"]
    assert cells[0]["config"] == "batch_size 32, units 16"
    assert cells[0]["val_accuracy"] == "0.9"


def test_effects_are_of_the_baseline_and_crossings_have_whole_sizes() -> None:
    configs = [{"units": size} for size in UNITS * 3]
    sizes = part(sizes_part, build_record_by_laws(build_crossing_laws(70), configs))
    effects = rows(sizes, "param changed")
    assert [*effects] == [f"{SHORT[PORTABLE]}, units doubled"]
    doubled = effects[f"{SHORT[PORTABLE]}, units doubled"]
    factor = float(doubled["step_ms changes by (95 % CI)"].split()[0])
    assert factor == pytest.approx(2, rel=0.05)
    assert doubled["verdict"] == "slower"
    depends = rows(sizes, "speed-up that depends on size")
    assert depends[f"{SHORT[XLA]}, units doubled"]["verdict"] == "faster"
    along = rows(sizes, "along")["units"]
    word, size, interval = along["faster"].split()
    low, high = interval.strip("()").split("–")
    assert word == "from" and int(low) < int(size) < int(high)
    assert (along["smallest"].split()[-1], along["largest"].split()[-1]) == ("16", "192")


def test_effects_without_an_interval_have_no_row() -> None:
    """Of three values, one is in three configs only."""
    configs = [{"layers": n, "units": size} for n in (1, 2) for size in UNITS]
    configs += [{"layers": 3, "units": size} for size in UNITS[:3]]
    sizes = part(sizes_part, build_record_by_laws(build_crossing_laws(70), configs))
    (table, *_) = [table for table in sizes.tables if table.headers[0] == "param changed"]
    changes = [row[0].partition(", ")[2] for row in table.rows]
    assert changes == ["layers 2, not 1", "units doubled"]


def test_importance_is_of_params_that_varied() -> None:
    configs = [{"units": size, "layers": n, "batch_size": 32} for n in (1, 2) for size in UNITS]
    sizes = part(sizes_part, build_record_by_laws(build_crossing_laws(70), configs))
    shares = rows(sizes, "importance")
    assert [*shares] == ["units", "layers"]
    assert float(shares["units"]["step_ms"].removesuffix(" %")) > 90


# Cost


@pytest.mark.parametrize(
    ("objective", "title", "scopes"),
    [
        ("energy_j", "energy (J)", (" cpu_package", " gpu")),
        ("cost_usd", "cost per trial (USD)", ("", "")),
    ],
)
def test_an_objective_on_energy_or_cost_is_listed_once_with_its_unit(
    objective: str, title: str, scopes: tuple[str, str]
) -> None:
    expenses: dict[str, Any] = {"energy_j": 5.0, "energy_per_sample_j": 0.005, "cost_usd": 5.0}
    trials = [
        build_trial(0, arm, **expenses, train_cost_usd=5.0, energy_scope=scope)
        for arm, scope in ((PORTABLE, "cpu_package"), (ON_GPU, "gpu"))
    ]
    record = build_record(trials, (PORTABLE, ON_GPU), objectives={objective: "minimize"})
    (_, *cells) = rows(part(cost_part, record), "measure")[title].values()
    assert cells == [f"5.00{scope}" for scope in scopes]


def test_a_small_price_is_written_out_and_expenses_are_compared_with_the_baseline() -> None:
    trials = [
        build_trial(
            block,
            arm,
            metrics={"step_ms": 10.0, "train_cost_usd": 1.23e-05 * (1 + (arm == XLA))},
        )
        for block in range(8)
        for arm in (PORTABLE, XLA)
    ]
    cost = part(cost_part, build_record(trials))
    title = "cost of the timed epochs (USD)"
    assert rows(cost, "measure")[title][SHORT[PORTABLE]] == "0.0000123"
    assert rows(cost, "compared with baseline")[SHORT[XLA]][title].startswith("0.500 ×")
    assert rows(cost, "compared with baseline")[SHORT[XLA]][title].endswith(" worse")


@pytest.mark.parametrize(
    ("saved_ms", "check"),
    [
        (5.0, lambda cell: 1590 < int(cell.split()[0].replace(",", "")) < 1610),
        (-5.0, lambda cell: cell == "never"),
        (0.0, lambda cell: cell == "open"),
    ],
)
def test_a_longer_compilation_pays_off_never_or_after_some_steps(
    saved_ms: float, check: Callable[[str], bool]
) -> None:
    """Eight more seconds of compiling against 5 ms a step are 1,600 steps."""
    trials = [
        build_trial(
            block,
            arm,
            step_ms=20.0 - saved + 0.001 * ((block * (place + 1)) % 3),
            train_s=2.0,
            compile_s=compile_s + 0.01 * (block % 2),
        )
        for block in range(9)
        for place, (arm, saved, compile_s) in enumerate(
            ((PORTABLE, 0.0, 1.0), (XLA, saved_ms, 9.0))
        )
    ]
    (row,) = rows(part(cost_part, build_record(trials)), "compiles longer").values()
    assert row["compiles longer"] == SHORT[XLA] and row["compared with"] == SHORT[PORTABLE]
    assert check(row["pays off after (steps)"])


def test_each_phase_that_was_measured_has_a_column() -> None:
    trials = [build_trial(block, PORTABLE, train_s=10.0, import_s=6.0) for block in range(4)]
    cells = rows(part(cost_part, build_record(trials, (PORTABLE,))), "seconds per trial")
    assert cells[SHORT[PORTABLE]] == {
        "seconds per trial": SHORT[PORTABLE],
        "trials": "4",
        "import": "6",
        "train": "10",
    }


# Trust


def test_trust_counts_outcomes_and_lists_what_ended_otherwise() -> None:
    trials = [
        build_trial(0, PORTABLE),
        build_trial(0, XLA, status="failed", failure="crash: signal 11", metrics={}),
        build_trial(1, PORTABLE, attempt=2),
        build_trial(1, XLA, disturbance={"other_processes": 43.0}),
    ]
    trust = part(trust_part, build_record(trials, expected_trials=6))
    table = next(table for table in trust.tables if table.headers[:2] == ("arm", "complete"))
    counts = {row[0]: dict(zip(table.headers, row, strict=True)) for row in table.rows}
    assert [counts[SHORT[XLA]][title] for title in ("complete", "failed", "disturbed")] == [*"111"]
    assert counts[SHORT[PORTABLE]]["re-run"] == "1"
    excluded = rows(trust, "excluded")[SHORT[XLA]]
    assert (excluded["reason"], excluded["first message"]) == ("crash", "signal 11")
    assert any(fact.label == "disturbed" and "43 %" in fact.text for fact in trust.doubts)


def test_trust_names_packages_of_several_versions_and_models_that_are_not_kept() -> None:
    facts: list[dict[str, Any]] = [
        {"keras": "3.14.0", "packages": "pandas 2.1, keras 3.14.0"},
        {"keras": "3.15.1", "packages": "pandas 2.2", NOT_KEPT: "ValueError: no"},
    ]
    trials = [
        build_trial(block, arm, environment={"python": "3.11", **facts[block % 2]})
        for block in range(4)
        for arm in (PORTABLE, XLA)
    ]
    trust = part(trust_part, build_record(trials, (PORTABLE, XLA)))
    texts = {fact.label: fact.text for fact in trust.doubts}
    assert all(f in texts["versions"] for f in ("keras 3.14.0 and 3.15.1", "pandas 2.1 and 2.2"))
    assert "python" not in texts["versions"] and "--fresh" in texts["versions"]
    assert texts["no model kept"].startswith("4 trials of")


def test_trust_has_the_kernels_with_their_evidence_and_the_mathematics() -> None:
    trials = [
        build_trial(block, arm, fingerprint=build_fingerprint(factor))
        for block in range(2)
        for arm, factor in ((PORTABLE, 1.0), (XLA, 1.0), (UNROLL, 1.5))
    ]
    trust = part(trust_part, build_record(trials, (PORTABLE, XLA, UNROLL)))
    table = next(table for table in trust.tables if "kernel that ran" in table.headers)
    assert table.rows[1] == (
        SHORT[XLA],
        "portable: 2 (While in the traced graph)",
        "yes",
        "float32",
    )
    equal = rows(trust, "equal mathematics")
    assert (equal[SHORT[XLA]]["equal"], equal[SHORT[UNROLL]]["equal"]) == ("yes", "no")
    assert equal[SHORT[UNROLL]]["max Δ gradient"] == "50 %"


def test_trust_has_the_graphs_of_what_was_compiled_and_the_precision_that_ran() -> None:
    trials = [
        build_trial(block, arm, environment=facts)
        for block in range(2)
        for arm, facts in (
            (PORTABLE, {}),
            (XLA, {COMPILED_GRAPHS: 2, GRAPH_BREAKS: block, "precision": "bf16"}),
        )
    ]
    trust = part(trust_part, build_record(trials, (PORTABLE, XLA)))
    table = next(table for table in trust.tables if "kernel that ran" in table.headers)
    assert table.headers[3:] == ("precision", "graphs", "graph breaks")
    assert [row[3:] for row in table.rows] == [("float32", ABSENT, ABSENT), ("bf16", "2", "1")]


def test_a_different_use_of_cudnn_is_listed_where_backends_are_compared() -> None:
    arms = [Arm(f"{backend}/fused", GPU) for backend in ("torch", "jax")]
    for count in (1, 2):
        trials = [build_trial(0, arm) for arm in arms[:count]]
        doubts = part(trust_part, build_record(trials, arms[:count])).doubts
        assert [fact.label for fact in doubts].count("cuDNN use differs") == count - 1
