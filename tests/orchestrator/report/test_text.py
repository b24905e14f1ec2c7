"""The report as text: order, width, completeness and escaping."""

from __future__ import annotations

import re

import pytest
from rich.cells import cell_len

from orchestrator.core.arms import Arm, RequestedArm
from orchestrator.core.records import SweepRecord
from orchestrator.core.trial import DatasetRecord, ImpossibleArm
from orchestrator.report.render import render, summarise
from tests.orchestrator.sample_hardware import on_gpu
from tests.orchestrator.sample_records import CPU, GPU, PORTABLE, UNROLL, XLA, paired, sweep, trial


def text(record: SweepRecord, baseline: str | None = None, width: int = 100) -> str:
    return render(summarise(record, baseline), "text", width=width)


def flat(report: str) -> str:
    """Return the text as one line, so that wrapped sentences can be searched."""
    return " ".join(report.split())


def squeezed(report: str) -> str:
    return re.sub(r"\s", "", report)


def test_the_verdict_comes_first() -> None:
    record = paired(8, lambda block: 1.25 + (block % 3) / 20)
    lines = text(record).splitlines()
    assert lines[0] == "Sweep quickstart: image_rows"
    assert flat(" ".join(lines[2:4])).startswith(
        "• tensorflow/portable+xla is 1.293 × (1.259–1.328) as fast as tensorflow/portable on "
        f"{CPU}, over 8 blocks"
    )


def test_inconclusive_verdicts_have_a_reason() -> None:
    assert (
        "inconclusive: tensorflow/portable+xla compared with tensorflow/portable on "
        f"{CPU} is 1.250 × (1.250–1.250) as fast (4 blocks; at least 6 are needed)"
    ) in flat(text(paired(4)))
    assert (f"compared with tensorflow/portable on {CPU} (1 block; at least 6 are needed)") in flat(
        text(paired(1))
    )
    assert "as fast, over 8 blocks" in flat(text(paired(8, lambda b: 2.0 if b % 2 else 0.5)))


def test_the_range_of_the_configs_is_shown() -> None:
    report = flat(text(paired(8)))
    assert "Over the configs tried, not over all configs: batch_size 32, units 16–128." in report
    assert "4 configs of" not in report


def test_shared_hardware_is_named_in_the_head_and_in_sentences_only() -> None:
    report = text(paired(8))
    tables = report[report.index("Speed-up over") :]
    assert str(CPU) not in tables
    assert re.search(rf"hardware +{CPU}", report)


def test_several_hardware_classes_are_named_with_each_arm() -> None:
    gpu = Arm("tensorflow/portable", GPU)
    trials = [trial(arm, block) for block in range(2) for arm in (PORTABLE, gpu)]
    report = flat(text(sweep(trials, (PORTABLE, gpu))))
    assert f"tensorflow/portable on {GPU} compared with tensorflow/portable on {CPU}" in report


def test_hardware_without_the_baseline_is_reported() -> None:
    gpu, other = Arm("tensorflow/portable", GPU), Arm("tensorflow/cudnn", on_gpu("NVIDIA T4"))
    trials = [trial(arm, block) for block in range(6) for arm in (PORTABLE, gpu, other)]
    report = flat(text(sweep(trials, (PORTABLE, gpu, other)), "tensorflow/portable"))
    assert (f"{other} is not compared: the baseline cannot run on this hardware") in report
    assert "Speed-up over tensorflow/portable on the same hardware" in report


def test_excluded_blocks_and_arms_have_a_reason() -> None:
    trials = [trial(arm, block) for block in range(7) for arm in (PORTABLE, XLA)]
    trials[-1] = trial(XLA, 6, status="failed", failure="time_limit: took longer than 60 s")
    trials += [trial(UNROLL, 0, status="failed", failure="crash: signal 11")]
    report = flat(text(sweep(trials, (PORTABLE, XLA, UNROLL))))
    assert (
        "6 of 7 blocks complete on every arm; excluded: 1 block (tensorflow/portable+xla failed)"
        in report
    )
    assert "Not compared, because no trial is complete: tensorflow/portable+unroll." in report
    assert "time limit 1 took longer than 60 s" in report
    assert "cuDNN kernels need an NVIDIA GPU" in report
    assert "The sweep is incomplete: 6 of 21 trials missing." in report


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        (sweep([]), "no trial has ended yet"),
        (sweep([], arms=()), "no trial has ended yet"),
        (sweep([trial(PORTABLE, 0)], (PORTABLE,)), "there is no second arm to compare with"),
        (
            sweep([trial(arm, 0, step_ms=None) for arm in (PORTABLE, XLA)]),
            "neither step_ms nor train_s was recorded on two arms",
        ),
        (
            sweep([trial(PORTABLE, 0), trial(XLA, 0, status="failed")]),
            f"(no trial of tensorflow/portable+xla on {CPU} is complete)",
        ),
    ],
)
def test_a_report_without_comparisons_states_the_reason(record: SweepRecord, reason: str) -> None:
    assert reason in flat(text(record))


LONG = Arm("tensorflow/" + "+".join(f"option{i}" for i in range(20)), CPU)
LONG_CONFIG = {f"param_number_{i}": 0.1234 * i for i in range(12)}
LONG_METRICS = {f"objective_{i}_with_a_long_name": 1.0 for i in range(3)} | {
    "step_ms": 1e4 / 7, "train_s": 1e6 / 7, "samples_per_s": 1e9 / 3, "peak_rss_mib": 1e5
}  # fmt: skip
WIDE = SweepRecord(
    name="名前" * 60,
    generation=2,
    run_id="r" * 150,
    workload="package." * 20,
    objectives={f"objective_{i}_with_a_long_name": "maximize" for i in range(3)},
    arms=(PORTABLE, LONG),
    impossible=(ImpossibleArm(RequestedArm(LONG.implementation, str(CPU)), "because " * 40),),
    blocks=7,
    repeats=1,
    expected_trials=14,
    trials=(
        *(trial(arm, b, config=LONG_CONFIG, metrics=LONG_METRICS)
          for b in range(7) for arm in (PORTABLE, LONG)),
        trial(LONG, 7, status="failed", failure="error: " + "x" * 500),
    ),
    environment={f"package{i}": "1.2.3" for i in range(100)},
)  # fmt: skip


@pytest.mark.parametrize("width", [60, 80, 100, 140])
def test_text_fits_the_width_and_is_not_cut_off(width: int) -> None:
    report = text(WIDE, width=width)
    assert max(map(cell_len, report.splitlines())) <= width
    assert "…" not in report
    assert "package99 1.2.3" in flat(report)
    assert report.count("x") >= 500
    assert report.count("r") >= 150
    assert report.count("because") == 40
    assert squeezed(report).count("名") >= 60
    if width >= 100:
        assert LONG.implementation in squeezed(report)


def test_every_param_of_a_best_config_is_printed() -> None:
    report = squeezed(text(WIDE))
    for i in range(12):
        assert f"param_number_{i}" in report
    assert report.count("param_number_11") == 2 + 7 + 2  # the range, twice; a block; an arm's best


def test_the_best_of_one_objective_is_named() -> None:
    trials = [trial(PORTABLE, b, val_accuracy=0.9 + b / 100) for b in range(3)]
    report = text(sweep(trials, (PORTABLE,), objectives={"val_accuracy": "maximize"}))
    assert (
        "best in val_accuracy (maximize) of 3 configs × arms: val_accuracy 0.92, in block 2, "
        "tensorflow/portable"
    ) in flat(report)
    assert "Best config" in report
    assert "Pareto-best in val_accuracy (maximize) and step_ms (minimize): 2 of 2 configs" in flat(
        text(sweep([trial(PORTABLE, 0), trial(XLA, 0)]))
    )


def test_a_long_front_counts_the_configs_that_are_not_printed() -> None:
    trials = [trial(PORTABLE, b, val_accuracy=b / 100, step_ms=1.0 + b) for b in range(30)]
    report = text(sweep(trials, (PORTABLE,)))
    assert "10 more are in the JSON format." in report


def test_terminal_codes_are_printed_only_on_request() -> None:
    summary = summarise(paired(8))
    assert "\x1b" not in render(summary, "text")
    coloured = render(summary, "text", colour=True)
    assert coloured.count("\x1b[") > 10
    stripped = re.sub(r"\x1b\[[0-9;]*m", "", coloured)
    assert [line.rstrip() for line in stripped.splitlines()] == text(paired(8)).splitlines()


def test_hostile_text_is_escaped() -> None:
    arm = Arm("[red]evil[/red]\x1b[31m\nnext :smile: \u202eback", CPU)
    trials = [trial(arm, 0, status="failed", failure="error: \x1b]0;title\x07 \ud800")]
    report = text(sweep(trials, (PORTABLE, arm)))
    assert r"[red]evil[/red]\x1b[31m next :smile: \u202eback" in flat(report)
    assert not set(report) & set("\x1b\x07\u202e\ud800")
    report.encode()


def test_the_environment_of_the_terminal_has_no_effect(monkeypatch: pytest.MonkeyPatch) -> None:
    before = text(paired(8))
    for name in ("FORCE_COLOR", "COLUMNS", "NO_COLOR", "JUPYTER_COLUMNS"):
        monkeypatch.setenv(name, "37")
    assert text(paired(8)) == before


@pytest.mark.parametrize("width", range(100, 141))
def test_an_arm_of_usual_length_is_never_folded(width: int) -> None:
    measured = {"val_accuracy": 0.8343, "train_s": 0.4361, "evaluate_s": 0.09213, "load_s": 0.052}
    trials = [
        trial(arm, block, metrics={**measured, "step_ms": 3.19 + block, "compile_s": 6.24})
        for arm in (PORTABLE, UNROLL)
        for block in range(6)
    ]
    report = text(sweep(trials, [PORTABLE, UNROLL]), width=width)
    assert not [line for line in report.splitlines() if line.strip() in ("l", "ll", "oll", "roll")]


def test_the_head_shows_settings_data_and_search() -> None:
    data = DatasetRecord("digits", "0123456789abcdef", "a file", 1438, 359)
    report = flat(
        text(
            sweep(
                paired(6).trials,
                settings={"cell": "gru", "epochs": 3, "data_path": None},
                datasets=(data,),
                sampler="qmc",
                seed=7,
            )
        )
    )
    assert "settings cell gru, epochs 3" in report
    assert (
        "digits from a file: 1438 to train on, 359 to validate on, SHA-256 0123456789ab…" in report
    )
    assert "search qmc, seed 7" in report
    assert "data_path" not in report


def test_a_workload_without_accuracy_has_no_column_for_it() -> None:
    trials = [
        trial(arm, block, metrics={"step_ms": 10.0 + block, "loss": 1.0})
        for arm in (PORTABLE, XLA)
        for block in range(6)
    ]
    assert "val_accuracy (95 %)" not in text(sweep(trials))
    assert "val_accuracy (95 %)" in text(paired(6))
