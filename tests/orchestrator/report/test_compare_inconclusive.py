"""Comparison of sweeps: arms without a verdict are listed, and fail the command on request."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from orchestrator.cli.main import main
from orchestrator.core.arms import Arm
from orchestrator.core.records import SweepRecord
from orchestrator.core.trial import DatasetRecord, FinishedTrial
from orchestrator.report.compare import Changes, as_json, compare, failing, of_record, to_document
from orchestrator.report.formats.text import to_text
from orchestrator.report.render import render, summarise
from tests.orchestrator.sample_records import CPU, PORTABLE, XLA, changed, sweep, trial

FUSED = Arm("torch/fused", CPU)
NAN = "non_finite: epoch 3: expected finite metrics; loss is nan"
DIGITS = DatasetRecord("digits", "ab" * 32, "scikit-learn", 1437, 360)

Change = Callable[[FinishedTrial], FinishedTrial]


def recorded(
    arms: tuple[Arm, ...] = (PORTABLE, XLA),
    change: Change = lambda finished: finished,
    configs: int = 8,
    **metrics: Any,
) -> SweepRecord:
    """Make a sweep in which all arms take the same time; `change` edits each trial."""
    trials = [
        change(trial(arm, block, step_ms=5.0 + block, val_accuracy=0.9, **metrics))
        for block in range(configs)
        for arm in arms
    ]
    return sweep(trials, arms, datasets=(DIGITS,))


def failed(arm: Arm, failure: str = "error: no kernel image", blocks: int = 8) -> Change:
    """Return a change that makes the first trials of an arm fail."""

    def change(finished: FinishedTrial) -> FinishedTrial:
        if finished.arm != arm or finished.block >= blocks:
            return finished
        return changed(finished, status="failed", failure=failure, metrics={})

    return change


def scaled(metric: str, factor: float, arm: Arm = XLA) -> Change:
    def change(finished: FinishedTrial) -> FinishedTrial:
        if finished.arm != arm:
            return finished
        # the factors differ between configs, so that the interval has a width
        by = factor * (1 + 0.002 * (finished.block % 3))
        return changed(
            finished, metrics={**finished.metrics, metric: by * finished.metrics[metric]}
        )

    return change


def between(before: SweepRecord, after: SweepRecord) -> Changes:
    one, other = (
        of_record(replace(record, run_id=label), label)
        for record, label in ((before, "old"), (after, "new"))
    )
    return compare(one, other)


def text(changes: Changes) -> str:
    return " ".join(to_text(to_document(changes), 200).split())


def test_an_arm_with_only_failed_trials_is_unjudged() -> None:
    changes = between(recorded(), recorded(change=failed(XLA)))
    assert changes.unjudged == ((XLA, "all its trials failed in new"),)
    assert not changes.all_inconclusive
    assert "became faster or slower (all its trials failed in new)" in text(changes)
    assert as_json(changes, ())["unjudged"] == [
        {"arm": str(XLA), "reason": "all its trials failed in new"}
    ]


def test_other_outcomes_are_counted() -> None:
    def change(finished: FinishedTrial) -> FinishedTrial:
        if finished.arm != XLA:
            return finished
        return changed(
            finished, status="wrong_kernel" if finished.block % 2 else "failed", metrics={}
        )

    ((_, reason),) = between(recorded(change=change), recorded()).unjudged
    assert reason == "none of its trials was completed in old (4 failed and 4 wrong kernel)"
    record = recorded()
    one_sided = replace(record, trials=tuple(t for t in record.trials if t.arm != XLA))
    ((_, missing),) = between(record, one_sided).unjudged
    assert missing == "none of its trials has ended in new"


def test_removed_arms_are_unjudged_and_new_arms_are_not() -> None:
    changes = between(recorded(), recorded((PORTABLE, FUSED)))
    assert changes.unjudged == ((XLA, "only old has it"),)
    assert between(recorded((PORTABLE,)), recorded()).unjudged == ()


def test_accuracy_is_inconclusive_if_training_diverges_only_now() -> None:
    changes = between(recorded(configs=14), recorded(configs=14, change=failed(XLA, NAN, blocks=7)))
    portable, xla = changes.arms
    assert (xla.verdict, len(xla.pairs)) == ("same", 7)
    assert portable.accuracy is not None and portable.accuracy.verdict == "equal"
    assert xla.accuracy is not None
    assert (xla.accuracy.verdict, xla.accuracy.diverged) == ("inconclusive", 7)
    reason = "the later training diverged in 7 configs in which the earlier did not"
    assert changes.unjudged == ((XLA, reason),)
    assert f"tensorflow/portable+xla became less accurate ({reason})" in text(changes)


def test_accuracy_is_inconclusive_if_training_diverged_only_before() -> None:
    changes = between(recorded(change=failed(XLA, NAN, blocks=2)), recorded())
    accuracy = changes.arms[1].accuracy
    assert accuracy is not None
    assert (accuracy.verdict, accuracy.diverged_before) == ("inconclusive", 2)
    both = between(*[recorded(change=failed(XLA, NAN, blocks=2))] * 2)
    assert both.arms[1].accuracy is not None
    assert both.arms[1].accuracy.verdict == "equal"


def test_a_margin_narrower_than_one_validation_sample_is_widened_to_it() -> None:
    few_samples = replace(recorded(configs=6), datasets=(replace(DIGITS, validation_samples=50),))
    (one, other) = (arm.accuracy for arm in between(few_samples, few_samples).arms)
    assert one is not None and other is not None
    assert [(arm.verdict, arm.margin) for arm in (one, other)] == [("equal", 1 / 50)] * 2


@pytest.mark.parametrize(
    ("factor", "verdict", "asked", "fails"),
    [
        (1.5, "more", "larger", True),
        (1.5, "more", "changed", True),
        (1.5, "more", "slower", False),
        (0.7, "less", "changed", True),
        (0.7, "less", "larger", False),
        (1.02, "same", "changed", False),
    ],
)
def test_memory_is_judged(factor: float, verdict: str, asked: str, fails: bool) -> None:
    def fresh(finished: FinishedTrial) -> FinishedTrial:
        return changed(scaled("peak_rss_mib", factor)(finished), trainer_trials=0)

    before = recorded(
        peak_rss_mib=1000.0, change=lambda finished: changed(finished, trainer_trials=0)
    )
    changes = between(before, recorded(peak_rss_mib=1000.0, change=fresh))
    needs = [[(need.metric, need.verdict) for need in arm.needs] for arm in changes.arms]
    assert needs == [[("peak_rss_mib", "same")], [("peak_rss_mib", verdict)]]
    assert changes.arms[1].memory == changes.arms[1].needs[0].ratio
    assert [arm.after for arm in failing(changes, [asked])] == ([XLA] if fails else [])  # type: ignore[list-item]
    sentence = f"tensorflow/portable+xla needs {verdict} memory: "
    assert (sentence in text(changes)) == (verdict != "same")


def test_gpu_and_host_memory_are_compared_separately() -> None:
    def fresh(finished: FinishedTrial) -> FinishedTrial:
        return changed(finished, trainer_trials=0)

    before = recorded(peak_rss_mib=1000.0, peak_gpu_mib=500.0, change=fresh)
    changes = between(before, recorded(peak_rss_mib=1100.0, peak_gpu_mib=500.0, change=fresh))
    assert [(need.metric, need.verdict) for need in changes.arms[0].needs] == [
        ("peak_gpu_mib", "same"),
        ("peak_rss_mib", "more"),
    ]


def test_compile_times_are_compared_between_warm_trainers() -> None:
    before = recorded(compile_s=2.0)
    longer = recorded(compile_s=2.0, change=scaled("compile_s", 2.0))
    changes = between(before, longer)
    assert [[need.verdict for need in arm.needs] for arm in changes.arms] == [["same"], ["more"]]
    assert "needs more time to compile: 2.0" in text(changes)
    first = replace(longer, trials=tuple(changed(t, trainer_trials=0) for t in longer.trials))
    assert [arm.needs for arm in between(before, first).arms] == [(), ()]


def test_needs_over_few_configs_are_inconclusive() -> None:
    before = recorded(configs=5, compile_s=2.0)
    ((need,), _) = (arm.needs for arm in between(before, before).arms)
    assert (need.verdict, need.corrected) == ("inconclusive", None)
    assert need.ratio.value == 1.0


@pytest.mark.parametrize(("canary_ms", "moved"), [(12.02, True), (10.0, False), (14.0, False)])
def test_a_change_like_that_of_the_canary_is_attributed_to_the_machine(
    canary_ms: float, moved: bool
) -> None:
    before = recorded((XLA,), canary_ms=10.0)
    slower = scaled("step_ms", 1.2)
    after = recorded((XLA,), canary_ms=canary_ms, change=slower)
    changes = between(before, after)
    assert changes.arms[0].verdict == "slower"
    assert changes.moved_with_canary == moved
    sentence = (
        "the calibration probe, work that never changes, changed by the same factor (0.832 ×)"
    )
    assert (sentence in text(changes)) == moved
    several = between(recorded(canary_ms=10.0), recorded(canary_ms=12.02, change=slower))
    assert not several.moved_with_canary


@pytest.fixture
def run(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str]]:
    """Return a function that compares two report files: exit code and stderr."""

    def run(before: SweepRecord, after: SweepRecord, *arguments: str) -> tuple[int, str]:
        for record, name in ((before, "old"), (after, "new")):
            report_path = tmp_path / f"{name}.json"
            report_path.write_text(render(summarise(replace(record, run_id=name)), "json"))
        with pytest.raises(SystemExit) as ended:
            main(["compare", str(tmp_path / "old.json"), str(tmp_path / "new.json"), *arguments])
        assert isinstance(ended.value.code, int)
        return ended.value.code, capfd.readouterr().err

    return run


def test_unjudged_arms_are_listed_and_can_fail_the_command(
    run: Callable[..., tuple[int, str]],
) -> None:
    before, after = recorded((PORTABLE, XLA, FUSED)), recorded(change=failed(XLA))
    unjudged = (
        f"not judged: {XLA} (all its trials failed in quickstart (new.json)); "
        f"{FUSED} (only quickstart (old.json) has it)\n"
    )
    assert run(before, after) == (0, "")
    assert run(before, after, "--fail-on", "slower") == (0, f"Warning: {unjudged}")
    assert run(before, after, "--fail-on", "inconclusive") == (
        1,
        f"--fail-on inconclusive: {unjudged}",
    )
    new = run(after, before, "--fail-on", "inconclusive")
    assert new[0] == 1  # XLA is still inconclusive
    assert f"{FUSED} (only quickstart (new.json) has it)" in new[1]
    only_new = run(recorded(), before, "--fail-on", "inconclusive")
    assert only_new == (
        0,
        f"Warning: not judged: {FUSED} (only quickstart (new.json) has it)\n",
    )


def test_a_report_file_holds_the_reasons_of_failures(
    run: Callable[..., tuple[int, str]], tmp_path: Path
) -> None:
    changes_path = tmp_path / "changes.json"
    after = recorded(change=failed(XLA, NAN, blocks=1))
    code, err = run(recorded(), after, "--fail-on", "inconclusive", "-o", str(changes_path))
    arms = json.loads(changes_path.read_text())["arms"]
    assert [arm["accuracy"]["verdict"] for arm in arms] == ["equal", "inconclusive"]
    assert (code, "diverged in 1 config in which the earlier did not" in err) == (1, True)


def test_a_report_file_holds_the_samples_behind_an_accuracy(
    run: Callable[..., tuple[int, str]], tmp_path: Path
) -> None:
    changes_path = tmp_path / "changes.json"
    few_samples = replace(recorded(configs=6), datasets=(replace(DIGITS, validation_samples=50),))
    assert run(few_samples, few_samples, "-o", str(changes_path))[0] == 0
    arms = json.loads(changes_path.read_text())["arms"]
    assert [arm["accuracy"]["verdict"] for arm in arms] == ["inconclusive", "inconclusive"]


def test_the_verdict_counts_the_configs_that_fail_only_now() -> None:
    changes = between(recorded(), recorded(change=failed(XLA, blocks=2)))
    assert [(arm.verdict, len(arm.pairs), arm.lost) for arm in changes.arms] == [
        ("same", 8, 0),
        ("same", 6, 2),
    ]
    assert "over 6 configs; at 2 others it no longer completes a trial" in text(changes)
    few_configs = between(recorded(configs=7), recorded(configs=7, change=failed(XLA, blocks=3)))
    assert "at least 6 are needed; at 3 others it no longer completes a trial)" in text(few_configs)
    assert [arm.lost for arm in between(recorded(change=failed(XLA)), recorded()).arms] == [0, 0]


def test_the_command_can_fail_on_memory(run: Callable[..., tuple[int, str]]) -> None:
    def fresh(finished: FinishedTrial) -> FinishedTrial:
        return changed(finished, trainer_trials=0)

    before = recorded(change=fresh, peak_rss_mib=1000.0)
    after = recorded(change=fresh, peak_rss_mib=1300.0)
    assert run(before, after, "--fail-on", "larger") == (1, f"--fail-on: {PORTABLE}; {XLA}\n")
    assert run(after, before, "--fail-on", "larger") == (0, "")
