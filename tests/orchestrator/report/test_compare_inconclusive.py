"""What two sweeps cannot tell of an arm is said, and fails where that is asked."""

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
    change: Change = lambda each: each,
    configs: int = 8,
    **metrics: Any,
) -> SweepRecord:
    """Every arm at every config, in the same time; `change` what is to be otherwise."""
    trials = [
        change(trial(arm, block, step_ms=5.0 + block, val_accuracy=0.9, **metrics))
        for block in range(configs)
        for arm in arms
    ]
    return sweep(trials, arms, datasets=(DIGITS,))


def failed(arm: Arm, failure: str = "error: no kernel image", blocks: int = 8) -> Change:
    """That trials of an arm failed."""

    def change(each: FinishedTrial) -> FinishedTrial:
        if each.arm != arm or each.block >= blocks:
            return each
        return changed(each, status="failed", failure=failure, metrics={})

    return change


def scaled(metric: str, factor: float, arm: Arm = XLA) -> Change:
    def change(each: FinishedTrial) -> FinishedTrial:
        if each.arm != arm:
            return each
        # no two configs alike, so that the interval has a width
        by = factor * (1 + 0.002 * (each.block % 3))
        return changed(each, metrics={**each.metrics, metric: by * each.metrics[metric]})

    return change


def between(before: SweepRecord, after: SweepRecord) -> Changes:
    one, other = (
        of_record(replace(record, run_id=label), label)
        for record, label in ((before, "old"), (after, "new"))
    )
    return compare(one, other)


def text(changes: Changes) -> str:
    return " ".join(to_text(to_document(changes), 200).split())


def test_an_arm_all_of_whose_trials_failed_is_told_so() -> None:
    found = between(recorded(), recorded(change=failed(XLA)))
    assert found.unjudged == ((XLA, "all its trials failed in new"),)
    assert not found.all_inconclusive
    assert "became faster or slower (all its trials failed in new)" in text(found)
    assert as_json(found, ())["unjudged"] == [
        {"arm": str(XLA), "reason": "all its trials failed in new"}
    ]


def test_other_ends_are_counted() -> None:
    def change(each: FinishedTrial) -> FinishedTrial:
        if each.arm != XLA:
            return each
        return changed(each, status="wrong_kernel" if each.block % 2 else "failed", metrics={})

    ((_, why),) = between(recorded(change=change), recorded()).unjudged
    assert why == "none of its trials was completed in old (4 failed and 4 wrong kernel)"
    record = recorded()
    one_sided = replace(record, trials=tuple(t for t in record.trials if t.arm != XLA))
    ((_, none),) = between(record, one_sided).unjudged
    assert none == "none of its trials has ended in new"


def test_arms_that_are_gone_are_not_judged_and_new_ones_were_no_faster_before() -> None:
    found = between(recorded(), recorded((PORTABLE, FUSED)))
    assert found.unjudged == ((XLA, "only old has it"),)
    assert between(recorded((PORTABLE,)), recorded()).unjudged == ()


def test_an_arm_that_diverges_now_is_not_called_as_accurate_as_before() -> None:
    found = between(recorded(configs=14), recorded(configs=14, change=failed(XLA, NAN, blocks=7)))
    portable, xla = found.arms
    assert (xla.verdict, len(xla.pairs)) == ("same", 7)
    assert portable.accuracy is not None and portable.accuracy.verdict == "equal"
    assert xla.accuracy is not None
    assert (xla.accuracy.verdict, xla.accuracy.diverged) == ("inconclusive", 7)
    why = "the later training diverged in 7 configs in which the earlier did not"
    assert found.unjudged == ((XLA, why),)
    assert f"tensorflow/portable+xla became less accurate ({why})" in text(found)


def test_what_diverged_before_alone_is_told_as_well() -> None:
    found = between(recorded(change=failed(XLA, NAN, blocks=2)), recorded())
    accuracy = found.arms[1].accuracy
    assert accuracy is not None
    assert (accuracy.verdict, accuracy.diverged_before) == ("inconclusive", 2)
    both = between(*[recorded(change=failed(XLA, NAN, blocks=2))] * 2)
    assert both.arms[1].accuracy is not None
    assert both.arms[1].accuracy.verdict == "equal"


def test_accuracies_of_few_samples_that_coincide_are_not_shown_to_be_equal() -> None:
    few = replace(recorded(configs=6), datasets=(replace(DIGITS, validation_samples=50),))
    (one, other) = (each.accuracy for each in between(few, few).arms)
    assert one is not None and other is not None
    assert (one.verdict, other.verdict) == ("inconclusive", "inconclusive")
    assert one.difference.high > one.margin


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
    def fresh(each: FinishedTrial) -> FinishedTrial:
        return changed(scaled("peak_rss_mib", factor)(each), trainer_trials=0)

    before = recorded(peak_rss_mib=1000.0, change=lambda each: changed(each, trainer_trials=0))
    found = between(before, recorded(peak_rss_mib=1000.0, change=fresh))
    needs = [[(need.metric, need.verdict) for need in arm.needs] for arm in found.arms]
    assert needs == [[("peak_rss_mib", "same")], [("peak_rss_mib", verdict)]]
    assert found.arms[1].memory == found.arms[1].needs[0].ratio
    assert [arm.after for arm in failing(found, [asked])] == ([XLA] if fails else [])  # type: ignore[list-item]
    sentence = f"tensorflow/portable+xla needs {verdict} memory: "
    assert (sentence in text(found)) == (verdict != "same")


def test_the_memory_of_a_gpu_is_told_beside_that_of_its_host() -> None:
    def fresh(each: FinishedTrial) -> FinishedTrial:
        return changed(each, trainer_trials=0)

    before = recorded(peak_rss_mib=1000.0, peak_gpu_mib=500.0, change=fresh)
    found = between(before, recorded(peak_rss_mib=1100.0, peak_gpu_mib=500.0, change=fresh))
    assert [(need.metric, need.verdict) for need in found.arms[0].needs] == [
        ("peak_gpu_mib", "same"),
        ("peak_rss_mib", "more"),
    ]


def test_the_time_to_compile_is_that_of_warm_trainers() -> None:
    before = recorded(compile_s=2.0)
    longer = recorded(compile_s=2.0, change=scaled("compile_s", 2.0))
    found = between(before, longer)
    assert [[need.verdict for need in arm.needs] for arm in found.arms] == [["same"], ["more"]]
    assert "needs more time to compile: 2.0" in text(found)
    first = replace(longer, trials=tuple(changed(t, trainer_trials=0) for t in longer.trials))
    assert [arm.needs for arm in between(before, first).arms] == [(), ()]


def test_needs_of_few_configs_tell_nothing() -> None:
    before = recorded(configs=5, compile_s=2.0)
    ((need,), _) = (arm.needs for arm in between(before, before).arms)
    assert (need.verdict, need.corrected) == ("inconclusive", None)
    assert need.ratio.value == 1.0


@pytest.mark.parametrize(("canary_ms", "moved"), [(12.02, True), (10.0, False), (14.0, False)])
def test_one_arm_that_moved_as_the_canary_did_is_the_machine(canary_ms: float, moved: bool) -> None:
    before = recorded((XLA,), canary_ms=10.0)
    slower = scaled("step_ms", 1.2)
    after = recorded((XLA,), canary_ms=canary_ms, change=slower)
    found = between(before, after)
    assert found.arms[0].verdict == "slower"
    assert found.moved_with_canary == moved
    said = "the calibration probe, work that never changes, changed by the same factor (0.832 ×)"
    assert (said in text(found)) == moved
    several = between(recorded(canary_ms=10.0), recorded(canary_ms=12.02, change=slower))
    assert not several.moved_with_canary


@pytest.fixture
def run(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str]]:
    """`rnnsweep compare` of two kept reports: code and stderr."""

    def run(before: SweepRecord, after: SweepRecord, *arguments: str) -> tuple[int, str]:
        for record, name in ((before, "old"), (after, "new")):
            kept = tmp_path / f"{name}.json"
            kept.write_text(render(summarise(replace(record, run_id=name)), "json"))
        with pytest.raises(SystemExit) as ended:
            main(["compare", str(tmp_path / "old.json"), str(tmp_path / "new.json"), *arguments])
        assert isinstance(ended.value.code, int)
        return ended.value.code, capfd.readouterr().err

    return run


def test_what_was_not_judged_is_named_and_fails_where_that_is_asked(
    run: Callable[..., tuple[int, str]],
) -> None:
    before, after = recorded((PORTABLE, XLA, FUSED)), recorded(change=failed(XLA))
    told = (
        f"not judged: {XLA} (all its trials failed in quickstart (new.json)); "
        f"{FUSED} (only quickstart (old.json) has it)\n"
    )
    assert run(before, after) == (0, "")
    assert run(before, after, "--fail-on", "slower") == (0, f"Warning: {told}")
    assert run(before, after, "--fail-on", "inconclusive") == (1, f"--fail-on inconclusive: {told}")
    new = run(after, before, "--fail-on", "inconclusive")
    assert new[0] == 1  # XLA still is inconclusive
    assert f"{FUSED} (only quickstart (new.json) has it)" in new[1]
    only_new = run(recorded(), before, "--fail-on", "inconclusive")
    assert only_new == (
        0,
        f"Warning: not judged: {FUSED} (only quickstart (new.json) has it)\n",
    )


def test_a_kept_report_knows_why_trainings_failed(
    run: Callable[..., tuple[int, str]], tmp_path: Path
) -> None:
    kept = tmp_path / "changes.json"
    after = recorded(change=failed(XLA, NAN, blocks=1))
    code, err = run(recorded(), after, "--fail-on", "inconclusive", "-o", str(kept))
    arms = json.loads(kept.read_text())["arms"]
    assert [arm["accuracy"]["verdict"] for arm in arms] == ["equal", "inconclusive"]
    assert (code, "diverged in 1 config in which the earlier did not" in err) == (1, True)


def test_a_kept_report_knows_of_how_many_samples_an_accuracy_is(
    run: Callable[..., tuple[int, str]], tmp_path: Path
) -> None:
    kept = tmp_path / "changes.json"
    few = replace(recorded(configs=6), datasets=(replace(DIGITS, validation_samples=50),))
    assert run(few, few, "-o", str(kept))[0] == 0
    arms = json.loads(kept.read_text())["arms"]
    assert [arm["accuracy"]["verdict"] for arm in arms] == ["inconclusive", "inconclusive"]


def test_configs_at_which_it_fails_now_are_told_beside_the_verdict() -> None:
    found = between(recorded(), recorded(change=failed(XLA, blocks=2)))
    assert [(arm.verdict, len(arm.pairs), arm.lost) for arm in found.arms] == [
        ("same", 8, 0),
        ("same", 6, 2),
    ]
    assert "over 6 configs; at 2 others it no longer completes a trial" in text(found)
    few = between(recorded(configs=7), recorded(configs=7, change=failed(XLA, blocks=3)))
    assert "at least 6 are needed; at 3 others it no longer completes a trial)" in text(few)
    assert [arm.lost for arm in between(recorded(change=failed(XLA)), recorded()).arms] == [0, 0]


def test_a_command_can_fail_on_memory(run: Callable[..., tuple[int, str]]) -> None:
    def fresh(each: FinishedTrial) -> FinishedTrial:
        return changed(each, trainer_trials=0)

    before = recorded(change=fresh, peak_rss_mib=1000.0)
    after = recorded(change=fresh, peak_rss_mib=1300.0)
    assert run(before, after, "--fail-on", "larger") == (1, f"--fail-on: {PORTABLE}; {XLA}\n")
    assert run(after, before, "--fail-on", "larger") == (0, "")
