"""Two sweeps side by side: what changed beyond noise, what else differs, and exit codes."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from orchestrator.core.arms import Arm
from orchestrator.core.records import SweepRecord
from orchestrator.core.trial import DatasetRecord
from orchestrator.report.compare import (
    Changes,
    InvalidSide,
    Side,
    as_json,
    compare,
    failing,
    of_record,
    read_report,
    to_document,
)
from orchestrator.report.formats.text import to_text
from orchestrator.report.render import render, summarise
from tests.orchestrator.cli.typed_commands import Run, typed
from tests.orchestrator.sample_hardware import in_slices, on_cpu
from tests.orchestrator.sample_records import CPU, PORTABLE, XLA, changed, sweep, trial
from tests.orchestrator.sample_sweeps import XLA as RECORDED_XLA
from tests.orchestrator.sample_sweeps import finished, fresh_home, opening
from tests.orchestrator.storage.tracking.recording import writer

DIGITS = DatasetRecord("digits", "ab" * 32, "scikit-learn", 1437, 360)
SETTINGS = {"epochs": 3, "cell": "lstm"}


def measured(
    configs: int = 8,
    *,
    factor: float = 1.0,
    noise: float = 0.01,
    arms: tuple[Arm, ...] = (PORTABLE, XLA),
    accuracy: float = 0.9,
    seed: int = 0,
    **changes: Any,
) -> SweepRecord:
    """Make a sweep in which the last arm takes `factor` times as long as the others."""
    dice = random.Random(seed)
    factors = {**dict.fromkeys(arms, 1.0), arms[-1]: factor}
    trials = [
        trial(
            arm,
            block,
            step_ms=5.0 * (block + 1) * factors[arm] * dice.lognormvariate(0, noise),
            val_accuracy=accuracy + dice.gauss(0, 0.001),
            peak_rss_mib=1000.0,
            trainer_trials=0,
        )
        for block in range(configs)
        for arm in arms
    ]  # fmt: skip
    return sweep(trials, arms, **{"datasets": (DIGITS,), "settings": SETTINGS, **changes})


def side(record: SweepRecord, label: str = "quickstart#1") -> Side:
    return of_record(replace(record, run_id=f"run of {label}"), label)


def between(before: SweepRecord, after: SweepRecord, margin: float = 0.05) -> Changes:
    return compare(side(before), side(after, "quickstart#2"), margin)


def text(changes: Changes) -> str:
    return " ".join(to_text(to_document(changes), 200).split())


def verdicts(changes: Changes) -> list[str]:
    return [arm.verdict for arm in changes.arms]


@pytest.mark.parametrize(
    ("factor", "verdict"), [(1.0, "same"), (1.02, "same"), (1.2, "slower"), (0.8, "faster")]
)
def test_each_arm_is_compared_with_itself(factor: float, verdict: str) -> None:
    changes = between(measured(), measured(factor=factor, seed=1))
    assert verdicts(changes) == ["same", verdict]
    speedup = changes.arms[1].speedup
    assert speedup is not None
    assert speedup.low < 1 / factor < speedup.high
    assert len(changes.arms[1].pairs) == 8


def test_wrong_verdicts_are_as_rare_as_promised() -> None:
    """Of 200 pairs of noisy, unchanged sweeps at most 5 % have a wrong verdict.

    The binomial's 99.9 % point of 200 at 5 % is 20.
    """
    wrong = sum(
        bool(
            {"faster", "slower"}
            & set(
                verdicts(
                    between(
                        measured(noise=0.08, seed=seed),
                        measured(noise=0.08, seed=seed + 1000),
                        margin=0.001,
                    )
                )
            )
        )
        for seed in range(200)
    )
    assert wrong <= 20


def test_fewer_than_six_configs_are_inconclusive() -> None:
    changes = between(measured(5), measured(5, factor=2.0))
    assert verdicts(changes) == ["inconclusive"] * 2
    assert changes.arms[1].reason == "5 configs in common; at least 6 are needed"


def test_a_change_that_may_be_within_the_margin_is_inconclusive() -> None:
    changes = between(measured(60, noise=0.05), measured(60, factor=1.045, noise=0.05, seed=3))
    assert verdicts(changes)[1] == "inconclusive"
    assert changes.arms[1].reason == "slower, but possibly within the margin"


def test_configs_are_matched_independently_of_their_block() -> None:
    before = measured()
    reordered = tuple(changed(original, block=7 - original.block) for original in before.trials)
    changes = between(before, replace(before, trials=reordered))
    assert [len(arm.pairs) for arm in changes.arms] == [8, 8]
    assert all(pair.before == pair.after for arm in changes.arms for pair in arm.pairs)


def test_a_searched_param_is_matched_with_a_fixed_setting() -> None:
    before = measured()
    fixed = tuple(changed(t, config={"units": t.config["units"]}) for t in before.trials)
    after = replace(before, trials=fixed, settings={**SETTINGS, "batch_size": 32})
    changes = between(before, after)
    assert [len(arm.pairs) for arm in changes.arms] == [8, 8]
    assert changes.differences == ()


def test_repeats_are_averaged_and_unfinished_trials_excluded() -> None:
    base = measured(6)
    repeats = tuple(changed(t, repeat=1, metrics={"step_ms": 40.0}) for t in base.trials[:2])
    failed_trials = tuple(changed(t, repeat=2, status="failed") for t in base.trials)
    changes = between(base, replace(base, trials=(*base.trials, *repeats, *failed_trials)))
    first = changes.arms[0].pairs[0]
    assert first.after == pytest.approx((first.before * 40.0) ** 0.5)
    assert [len(arm.pairs) for arm in changes.arms] == [6, 6]


def test_only_quiet_trials_count_if_there_are_six() -> None:
    base = measured(8)
    disturbance = {"other_processes": 43.0}
    after = replace(
        base,
        trials=tuple(
            changed(t, disturbance=disturbance, metrics={"step_ms": 1e3}) if t.block < 2 else t
            for t in base.trials
        ),
    )
    changes = between(base, after)
    assert [(len(arm.pairs), arm.quiet_only) for arm in changes.arms] == [(6, True)] * 2
    few_configs = between(measured(7), replace(after, trials=after.trials[:14]))
    assert [(len(arm.pairs), arm.quiet_only) for arm in few_configs.arms] == [(7, False)] * 2
    assert "because too few were quiet" in text(few_configs)


@pytest.mark.parametrize(
    ("disturbed", "verdict"), [(0, "slower"), (2, "slower"), (3, "inconclusive")]
)
def test_more_than_a_third_of_disturbed_configs_is_inconclusive(
    disturbed: int, verdict: str
) -> None:
    """The rule is that of the report: a busy core can slow one framework only."""
    disturbance = {"other_processes": 43.0}
    after = measured(7, factor=1.5)
    after = replace(
        after,
        trials=tuple(
            changed(t, disturbance=disturbance) if t.block < disturbed else t for t in after.trials
        ),
    )
    changes = between(measured(7), after)
    assert verdicts(changes)[1] == verdict
    assert len(failing(changes, ["slower"])) == (verdict == "slower")
    reason = (
        "4 of 7 configs were quiet, and 6 are needed where more than a third are disturbed: run "
        "more blocks (blocks: auto), or use a quieter node"
    )
    assert (reason in text(changes)) == (verdict == "inconclusive")
    assert ((XLA, reason) in changes.unjudged) == (verdict == "inconclusive")


def test_other_differences_are_listed_first() -> None:
    after = measured(
        environment={"tensorflow": "2.22.0", "python": "3.11.9", "cudnn": "9.3"},
        settings={**SETTINGS, "epochs": 5},
    )
    changes = between(measured(), after)
    differences = {
        (difference.subject, difference.name): (difference.before, difference.after)
        for difference in changes.differences
    }
    assert differences == {
        ("settings", "epochs"): ("3", "5"),
        ("environment", "tensorflow"): ("2.21.0", "2.22.0"),
        ("environment", "cudnn"): ("–", "9.3"),
    }
    assert "Accuracies are not compared: the settings differ" in text(changes)
    assert all(arm.accuracy is None for arm in changes.arms)


def test_accuracy_is_compared_on_the_same_data_only() -> None:
    worse = measured(accuracy=0.85, seed=5)
    changes = between(measured(), worse)
    assert [arm.accuracy and arm.accuracy.verdict for arm in changes.arms] == ["worse"] * 2
    assert "became worse: val_accuracy -0.05" in text(changes)
    other_data = replace(worse, datasets=(replace(DIGITS, digest="cd" * 32),))
    other_changes = between(measured(), other_data)
    assert [arm.accuracy for arm in other_changes.arms] == [None, None]
    assert failing(other_changes, ["worse"]) == ()
    assert "the data differ" in text(other_changes)


def test_equal_accuracies_have_the_verdict_equal() -> None:
    changes = between(measured(), measured(seed=9))
    assert [arm.accuracy and arm.accuracy.verdict for arm in changes.arms] == ["equal"] * 2


def test_memory_is_compared_between_fresh_trainers() -> None:
    after = measured()
    larger = tuple(changed(t, metrics={**t.metrics, "peak_rss_mib": 1500.0}) for t in after.trials)
    changes = between(measured(), replace(after, trials=larger))
    assert [arm.memory and round(arm.memory.value, 6) for arm in changes.arms] == [1.5, 1.5]
    warm_trials = tuple(changed(t, trainer_trials=3) for t in larger)
    assert [arm.memory for arm in between(measured(), replace(after, trials=warm_trials)).arms] == [
        None,
        None,
    ]


def test_arms_of_one_side_are_listed() -> None:
    third = Arm("torch/fused", CPU)
    changes = between(measured(arms=(PORTABLE, XLA)), measured(arms=(PORTABLE, third)))
    assert (changes.only_before, changes.only_after) == ((XLA,), (third,))
    assert f"Only quickstart#2 has {third}." in text(changes)  # the full name, as a user types it


def test_another_machine_is_reported_and_fails_nothing() -> None:
    moved_arms = tuple(Arm(arm.implementation, on_cpu("Intel Xeon", 2)) for arm in (PORTABLE, XLA))
    changes = between(measured(), measured(arms=moved_arms, factor=2.0))
    assert [arm.is_on_other_hardware for arm in changes.arms] == [True, True]
    assert changes.arms[1].verdict == "slower"
    assert failing(changes, ["slower", "changed"]) == ()
    assert f"before on {CPU}" in text(changes)
    assert "hardware: classes" in text(changes)


def test_arms_are_not_matched_if_several_machines_fit() -> None:
    several = (Arm("torch/fused", on_cpu("A", 2)), Arm("torch/fused", on_cpu("B", 2)))
    changes = between(measured(arms=several), measured(arms=(Arm("torch/fused", on_cpu("C", 2)),)))
    assert changes.arms == ()
    assert "no arm is on both sides" in text(changes)


def test_one_factor_over_all_arms_is_attributed_to_the_machine() -> None:
    before = measured(noise=0.001)
    slower_trials = tuple(
        changed(t, metrics={**t.metrics, "step_ms": t.metrics["step_ms"] * 1.3})
        for t in before.trials
    )
    assert "more likely the machine than the code" in text(
        between(before, replace(before, trials=slower_trials))
    )
    assert not between(before, measured(noise=0.001, factor=1.3)).moved_together


def test_a_change_of_the_canary_is_a_difference() -> None:
    def with_canary(canary_ms: float) -> SweepRecord:
        base = measured()
        trials = (changed(t, metrics={**t.metrics, "canary_ms": canary_ms}) for t in base.trials)
        return replace(base, trials=tuple(trials))

    (difference,) = between(with_canary(4.0), with_canary(5.0)).differences
    assert (difference.name, difference.before, difference.after) == (
        "calibration probe (ms)",
        "4",
        "5",
    )


def test_arms_timed_in_slices_have_no_accuracy() -> None:
    timed = (Arm("torch/fused", in_slices(CPU)), Arm("torch/portable", in_slices(CPU)))
    changes = between(measured(arms=timed), measured(arms=timed, factor=1.5, seed=2))
    assert verdicts(changes) == ["same", "slower"]
    assert [arm.accuracy for arm in changes.arms] == [None, None]


def test_different_workloads_are_not_compared() -> None:
    with pytest.raises(InvalidSide, match="one workload; received quickstart#1 of image_rows"):
        between(measured(), measured(workload="char_rnn"))


def test_a_sweep_is_not_compared_with_itself(tmp_path: Path) -> None:
    record = measured()
    baseline = read_report(written(record, tmp_path / "baseline.json"))
    with pytest.raises(InvalidSide, match=r"one sweep on both sides \(quickstart#1\)"):
        compare(side(record), side(record))
    with pytest.raises(InvalidSide, match=r"\(quickstart \(baseline\.json\) and quickstart#1\)"):
        compare(baseline, of_record(record, "quickstart#1"))


def test_json_is_one_versioned_object_of_finite_numbers() -> None:
    changes = between(measured(), measured(factor=1.5))
    body = as_json(changes, failing(changes, ["slower"]))
    assert json.loads(json.dumps(body, allow_nan=False)) == body
    assert (body["format"], body["version"]) == ("rnnsweep-compare", 1)
    assert [arm["fails"] for arm in body["arms"]] == [False, True]
    assert body["arms"][1]["verdict"] == "slower"
    assert len(body["arms"][1]["pairs"]) == 8


def test_hostile_names_are_escaped() -> None:
    hostile = Arm("\x1b[31mred", on_cpu("<b>", 2))
    report = to_text(to_document(between(measured(arms=(hostile,)), measured(arms=(hostile,)))))
    assert "\x1b" not in report


def written(record: SweepRecord, path: Path) -> Path:
    path.write_text(render(summarise(record), "json"))
    return path


def test_a_report_file_is_a_side(tmp_path: Path) -> None:
    record = measured()
    baseline = read_report(written(record, tmp_path / "baseline.json"))
    recorded = side(record)
    assert baseline.label == "quickstart (baseline.json)"
    assert (baseline.workload, baseline.arms, dict(baseline.data)) == (
        recorded.workload,
        recorded.arms,
        recorded.data,
    )
    changes = compare(baseline, side(measured(factor=1.3)))
    assert verdicts(changes) == ["same", "slower"]
    assert changes.differences == ()
    assert changes.arms[0].accuracy is not None


def test_values_that_are_not_finite_are_absent_from_a_report_file(tmp_path: Path) -> None:
    record = measured(1)
    not_finite = changed(record.trials[0], metrics={"step_ms": float("nan"), "val_accuracy": 0.5})
    baseline = read_report(written(replace(record, trials=(not_finite,)), tmp_path / "b.json"))
    assert baseline.trials[0].metrics == {"val_accuracy": 0.5}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "expected a report's JSON file, received: no such file"),
        ("not json", "JSON file; Invalid JSON"),
        ("{}", "format: Field required"),
        ('{"format": "rnnsweep-report"}', "version: Field required"),
        ('{"format": "rnnsweep-report", "version": 5}', "sweep: Field required"),
        (
            '{"format": "rnnsweep-report", "version": 3}',
            "expected version 5 of a report's JSON, received version 3, written by "
            "another version of rnnsweep. Write one with `rnnsweep report SWEEP -o FILE.json`",
        ),
    ],
)
def test_a_file_that_is_no_report_is_an_error(
    tmp_path: Path, content: str | None, message: str
) -> None:
    path = tmp_path / "baseline.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(InvalidSide) as error:
        read_report(path)
    assert str(path) in str(error.value)
    assert message in str(error.value)


def test_another_format_is_no_report(tmp_path: Path) -> None:
    path = written(measured(), tmp_path / "b.json")
    path.write_text(path.read_text().replace('"rnnsweep-report"', '"rnnsweep-plan"', 1))
    with pytest.raises(
        InvalidSide, match="expected format 'rnnsweep-report', received 'rnnsweep-plan'"
    ):
        read_report(path)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a home with two generations of a sweep; the second is slower on XLA."""
    home_path = fresh_home(tmp_path_factory.mktemp("compare"))
    for generation, slower in ((1, 1.0), (2, 1.5)):
        first = opening(home_path)
        trials = []
        for block in range(7):
            for arm in first.arms:
                factor = slower if arm == RECORDED_XLA else 1.0
                step_ms = (8.0 + block) * factor * (1 + 0.001 * (block % 3) * generation)
                done = finished(block, arm, metrics={"step_ms": step_ms, "val_accuracy": 0.875})
                key = f"{done.trial.key}-{generation}"
                trials.append(replace(done, trial=replace(done.trial, key=key)))
        identity = replace(first.identity, generation=generation)
        with writer(home_path) as opened:
            opened.open_sweep(opening(home_path, identity, blocks=7))
            opened.record(trials)
            opened.close("complete", {})
    return home_path


@pytest.fixture
def run(home: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Run:
    """Return a function that runs `rnnsweep` on that home: exit code, stdout, stderr."""
    monkeypatch.setenv("RNNSWEEP_HOME", str(home))
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)

    return partial(typed, capfd)


def test_the_command_and_its_exit_codes(run: Run, tmp_path: Path) -> None:
    code, out, err = run("compare", "quickstart#1", "quickstart#2")
    assert (code, err) == (0, "")
    words = " ".join(out.split())
    assert words.startswith("quickstart#1 → quickstart#2: image_rows on AMD EPYC 7763, 2 CPUs ")
    assert "• tensorflow/portable+xla became slower: 0.6" in words
    assert "• tensorflow/portable is as fast as before, within 5 %: " in words
    code, _, err = run("compare", "quickstart#1", "quickstart#2", "--fail-on", "slower")
    assert (code, err) == (1, f"--fail-on: {RECORDED_XLA}\n")
    assert run("compare", "quickstart#1", "quickstart", "--fail-on", "worse")[0] == 0
    assert run("compare", "quickstart#2", "quickstart#1", "--fail-on", "slower")[0] == 0
    assert run("compare", "quickstart#2", "quickstart#1", "--fail-on", "changed")[0] == 1
    assert run("compare", "quickstart#1", "quickstart#2", "--fail-on", "slower", "--margin", "1")[
        0
    ] == 0  # fmt: skip

    report_path = tmp_path / "kept.json"
    assert run("report", "quickstart#1", "-o", str(report_path))[0] == 0
    code, out, _ = run("compare", str(report_path), "quickstart", "--format", "json")
    assert code == 0
    assert [arm["verdict"] for arm in json.loads(out)["arms"]] == ["same", "slower"]
    target = tmp_path / "changes.md"
    code, out, err = run("compare", str(report_path), "quickstart", "-o", str(target))
    assert (code, out, err) == (0, "", f"wrote {target}\n")
    assert "| verdict |" in target.read_text()


def test_the_command_warns_if_no_arm_could_fail(run: Run, tmp_path: Path) -> None:
    report_path = written(sweep([], [PORTABLE]), tmp_path / "empty.json")
    code, _, err = run("compare", str(report_path), "quickstart", "--fail-on", "slower")
    assert code == 0
    assert "Warning: no arm could be judged" in err
    code, _, err = run("compare", str(report_path), "quickstart", "--fail-on", "inconclusive")
    assert code == 1
    assert err.endswith("--fail-on inconclusive: no arm could be judged\n")
    both = ("--fail-on", "inconclusive", "--fail-on", "slower")
    assert run("compare", "quickstart#2", "quickstart#1", *both)[0] == 0


def test_on_another_machine_all_arms_are_inconclusive() -> None:
    moved_arms = tuple(Arm(arm.implementation, on_cpu("Intel Xeon", 2)) for arm in (PORTABLE, XLA))
    changes = between(measured(), measured(arms=moved_arms, factor=2.0))
    assert changes.all_inconclusive
    assert as_json(changes, ())["inconclusive"]
    assert not between(measured(), measured(factor=2.0)).all_inconclusive


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("quickstart#1", "quickstart#9"), "quickstart#9"),
        (("none.json", "quickstart"), "none.json: expected a report's JSON file"),
        (("quickstart#2", "quickstart"), "one sweep on both sides (quickstart#2)"),
        (("quickstart#1", "quickstart#2", "--margin", "0"), "margin"),
        (("quickstart#1", "quickstart#2", "--fail-on", "louder"), "louder"),
    ],
)
def test_wrong_input_is_exit_code_2(run: Run, arguments: tuple[str, ...], message: str) -> None:
    code, out, err = run("compare", *arguments)
    assert (code, out) == (2, "")
    assert message in err
    assert "Traceback" not in err
