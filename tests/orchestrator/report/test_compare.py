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
    """Arms of which the last takes `factor` times as long, at configs that differ a lot."""
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
    found = between(measured(), measured(factor=factor, seed=1))
    assert verdicts(found) == ["same", verdict]
    speedup = found.arms[1].speedup
    assert speedup is not None
    assert speedup.low < 1 / factor < speedup.high
    assert len(found.arms[1].pairs) == 8


def test_wrong_alarms_are_as_rare_as_promised() -> None:
    """Nothing changed, in 200 pairs of noisy sweeps: at most 5 % have a wrong verdict.

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


def test_fewer_than_six_configs_tell_nothing() -> None:
    found = between(measured(5), measured(5, factor=2.0))
    assert verdicts(found) == ["inconclusive"] * 2
    assert found.arms[1].reason == "5 configs in common; at least 6 are needed"


def test_a_change_that_may_be_within_the_margin_is_none() -> None:
    found = between(measured(60, noise=0.05), measured(60, factor=1.045, noise=0.05, seed=3))
    assert verdicts(found)[1] == "inconclusive"
    assert found.arms[1].reason == "slower, but possibly within the margin"


def test_configs_are_matched_whatever_their_block() -> None:
    before = measured()
    turned = tuple(changed(each, block=7 - each.block) for each in before.trials)
    found = between(before, replace(before, trials=turned))
    assert [len(arm.pairs) for arm in found.arms] == [8, 8]
    assert all(pair.before == pair.after for arm in found.arms for pair in arm.pairs)


def test_what_one_side_searches_and_the_other_fixes_is_matched() -> None:
    before = measured()
    fixed = tuple(changed(t, config={"units": t.config["units"]}) for t in before.trials)
    after = replace(before, trials=fixed, settings={**SETTINGS, "batch_size": 32})
    found = between(before, after)
    assert [len(arm.pairs) for arm in found.arms] == [8, 8]
    assert found.differences == ()


def test_repeats_are_averaged_and_unfinished_trials_left_out() -> None:
    base = measured(6)
    again = tuple(changed(t, repeat=1, metrics={"step_ms": 40.0}) for t in base.trials[:2])
    broken = tuple(changed(t, repeat=2, status="failed") for t in base.trials)
    found = between(base, replace(base, trials=(*base.trials, *again, *broken)))
    first = found.arms[0].pairs[0]
    assert first.after == pytest.approx((first.before * 40.0) ** 0.5)
    assert [len(arm.pairs) for arm in found.arms] == [6, 6]


def test_quiet_trials_are_enough_where_there_are_six() -> None:
    base = measured(8)
    loud = {"other_processes": 43.0}
    after = replace(
        base,
        trials=tuple(
            changed(t, disturbance=loud, metrics={"step_ms": 1e3}) if t.block < 2 else t
            for t in base.trials
        ),
    )
    found = between(base, after)
    assert [(len(arm.pairs), arm.quiet_only) for arm in found.arms] == [(6, True)] * 2
    few = between(measured(7), replace(after, trials=after.trials[:14]))
    assert [(len(arm.pairs), arm.quiet_only) for arm in few.arms] == [(7, False)] * 2
    assert "because too few were quiet" in text(few)


@pytest.mark.parametrize(("hit", "verdict"), [(0, "slower"), (2, "slower"), (3, "inconclusive")])
def test_where_more_than_a_third_are_disturbed_nothing_is_told(hit: int, verdict: str) -> None:
    """As in the report over the same trials: a busy core slows one framework and not another."""
    loud = {"other_processes": 43.0}
    after = measured(7, factor=1.5)
    after = replace(
        after,
        trials=tuple(changed(t, disturbance=loud) if t.block < hit else t for t in after.trials),
    )
    found = between(measured(7), after)
    assert verdicts(found)[1] == verdict
    assert len(failing(found, ["slower"])) == (verdict == "slower")
    why = (
        "4 of 7 configs were quiet, and 6 are needed where more than a third are disturbed: run "
        "with disturbed: rerun, or on a quieter node"
    )
    assert (why in text(found)) == (verdict == "inconclusive")
    assert ((XLA, why) in found.unjudged) == (verdict == "inconclusive")


def test_what_differs_besides_is_told_first() -> None:
    after = measured(
        environment={"tensorflow": "2.22.0", "python": "3.11.9", "cudnn": "9.3"},
        settings={**SETTINGS, "epochs": 5},
    )
    found = between(measured(), after)
    told = {(each.subject, each.name): (each.before, each.after) for each in found.differences}
    assert told == {
        ("settings", "epochs"): ("3", "5"),
        ("environment", "tensorflow"): ("2.21.0", "2.22.0"),
        ("environment", "cudnn"): ("–", "9.3"),
    }
    assert "Accuracies are not compared: the settings differ" in text(found)
    assert all(arm.accuracy is None for arm in found.arms)


def test_accuracy_is_compared_on_the_same_data_only() -> None:
    worse = measured(accuracy=0.85, seed=5)
    found = between(measured(), worse)
    assert [arm.accuracy and arm.accuracy.verdict for arm in found.arms] == ["worse"] * 2
    assert "became worse: val_accuracy -0.05" in text(found)
    other = replace(worse, datasets=(replace(DIGITS, digest="cd" * 32),))
    unlike = between(measured(), other)
    assert [arm.accuracy for arm in unlike.arms] == [None, None]
    assert failing(unlike, ["worse"]) == ()
    assert "the data differ" in text(unlike)


def test_an_accuracy_that_is_the_same_is_shown_to_be() -> None:
    found = between(measured(), measured(seed=9))
    assert [arm.accuracy and arm.accuracy.verdict for arm in found.arms] == ["equal"] * 2


def test_memory_is_compared_between_fresh_trainers() -> None:
    after = measured()
    more = tuple(changed(t, metrics={**t.metrics, "peak_rss_mib": 1500.0}) for t in after.trials)
    found = between(measured(), replace(after, trials=more))
    assert [arm.memory and round(arm.memory.value, 6) for arm in found.arms] == [1.5, 1.5]
    warm = tuple(changed(t, trainer_trials=3) for t in more)
    assert [arm.memory for arm in between(measured(), replace(after, trials=warm)).arms] == [
        None,
        None,
    ]


def test_arms_of_one_side_are_listed() -> None:
    third = Arm("torch/fused", CPU)
    found = between(measured(arms=(PORTABLE, XLA)), measured(arms=(PORTABLE, third)))
    assert (found.only_before, found.only_after) == ((XLA,), (third,))
    assert f"Only quickstart#2 has {third}." in text(found)  # whole, as it is typed


def test_another_machine_is_said_and_fails_nothing() -> None:
    moved = tuple(Arm(arm.implementation, on_cpu("Intel Xeon", 2)) for arm in (PORTABLE, XLA))
    found = between(measured(), measured(arms=moved, factor=2.0))
    assert [arm.is_on_other_hardware for arm in found.arms] == [True, True]
    assert found.arms[1].verdict == "slower"
    assert failing(found, ["slower", "changed"]) == ()
    assert f"before on {CPU}" in text(found)
    assert "hardware: classes" in text(found)


def test_two_machines_of_a_kind_are_not_guessed_between() -> None:
    several = (Arm("torch/fused", on_cpu("A", 2)), Arm("torch/fused", on_cpu("B", 2)))
    found = between(measured(arms=several), measured(arms=(Arm("torch/fused", on_cpu("C", 2)),)))
    assert found.arms == ()
    assert "no arm is on both sides" in text(found)


def test_all_arms_slower_by_one_factor_is_the_machine() -> None:
    slow = measured(noise=0.001)
    every = tuple(
        changed(t, metrics={**t.metrics, "step_ms": t.metrics["step_ms"] * 1.3})
        for t in slow.trials
    )
    assert "more likely the machine than the code" in text(
        between(slow, replace(slow, trials=every))
    )
    assert not between(slow, measured(noise=0.001, factor=1.3)).moved_together


def test_the_canary_tells_of_the_machine() -> None:
    def with_canary(canary_ms: float) -> SweepRecord:
        base = measured()
        sung = (changed(t, metrics={**t.metrics, "canary_ms": canary_ms}) for t in base.trials)
        return replace(base, trials=tuple(sung))

    (found,) = between(with_canary(4.0), with_canary(5.0)).differences
    assert (found.name, found.before, found.after) == ("calibration probe (ms)", "4", "5")


def test_arms_timed_in_slices_have_no_accuracy() -> None:
    timed = (Arm("torch/fused", in_slices(CPU)), Arm("torch/portable", in_slices(CPU)))
    found = between(measured(arms=timed), measured(arms=timed, factor=1.5, seed=2))
    assert verdicts(found) == ["same", "slower"]
    assert [arm.accuracy for arm in found.arms] == [None, None]


def test_two_workloads_have_nothing_to_compare() -> None:
    with pytest.raises(InvalidSide, match="one workload; received quickstart#1 of image_rows"):
        between(measured(), measured(workload="char_rnn"))


def test_a_sweep_beside_itself_has_nothing_to_compare(tmp_path: Path) -> None:
    record = measured()
    kept = read_report(written(record, tmp_path / "baseline.json"))
    with pytest.raises(InvalidSide, match=r"one sweep on both sides \(quickstart#1\)"):
        compare(side(record), side(record))
    with pytest.raises(InvalidSide, match=r"\(quickstart \(baseline\.json\) and quickstart#1\)"):
        compare(kept, of_record(record, "quickstart#1"))


def test_json_is_one_versioned_object_of_finite_numbers() -> None:
    found = between(measured(), measured(factor=1.5))
    body = as_json(found, failing(found, ["slower"]))
    assert json.loads(json.dumps(body, allow_nan=False)) == body
    assert (body["format"], body["version"]) == ("rnnsweep-compare", 1)
    assert [arm["fails"] for arm in body["arms"]] == [False, True]
    assert body["arms"][1]["verdict"] == "slower"
    assert len(body["arms"][1]["pairs"]) == 8


def test_hostile_names_are_shown_and_not_obeyed() -> None:
    hostile = Arm("\x1b[31mred", on_cpu("<b>", 2))
    told = to_text(to_document(between(measured(arms=(hostile,)), measured(arms=(hostile,)))))
    assert "\x1b" not in told


def written(record: SweepRecord, path: Path) -> Path:
    path.write_text(render(summarise(record), "json"))
    return path


def test_a_report_file_is_a_side(tmp_path: Path) -> None:
    record = measured()
    kept = read_report(written(record, tmp_path / "baseline.json"))
    ours = side(record)
    assert kept.label == "quickstart (baseline.json)"
    assert (kept.workload, kept.arms, dict(kept.data)) == (ours.workload, ours.arms, ours.data)
    found = compare(kept, side(measured(factor=1.3)))
    assert verdicts(found) == ["same", "slower"]
    assert found.differences == ()
    assert found.arms[0].accuracy is not None


def test_what_is_not_finite_is_absent_from_a_report_file(tmp_path: Path) -> None:
    record = measured(1)
    broken = changed(record.trials[0], metrics={"step_ms": float("nan"), "val_accuracy": 0.5})
    kept = read_report(written(replace(record, trials=(broken,)), tmp_path / "b.json"))
    assert kept.trials[0].metrics == {"val_accuracy": 0.5}


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (None, "expected a report's JSON file, received: no such file"),
        ("not json", "JSON file; Invalid JSON"),
        ("{}", "format: Field required"),
        ('{"format": "rnnsweep-report"}', "version: Field required"),
        ('{"format": "rnnsweep-report", "version": 4}', "sweep: Field required"),
        (
            '{"format": "rnnsweep-report", "version": 3}',
            "expected version 4 of a report's JSON, received version 3, written by "
            "another version of rnnsweep. Write one with `rnnsweep report SWEEP -o FILE.json`",
        ),
    ],
)
def test_what_is_no_report_file(tmp_path: Path, content: str | None, told: str) -> None:
    path = tmp_path / "baseline.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(InvalidSide) as refused:
        read_report(path)
    assert str(path) in str(refused.value)
    assert told in str(refused.value)


def test_another_format_is_no_report(tmp_path: Path) -> None:
    path = written(measured(), tmp_path / "b.json")
    path.write_text(path.read_text().replace('"rnnsweep-report"', '"rnnsweep-plan"', 1))
    with pytest.raises(
        InvalidSide, match="expected format 'rnnsweep-report', received 'rnnsweep-plan'"
    ):
        read_report(path)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with two generations of a sweep; the second is slower on XLA."""
    made = fresh_home(tmp_path_factory.mktemp("compare"))
    for generation, slower in ((1, 1.0), (2, 1.5)):
        first = opening(made)
        trials = []
        for block in range(7):
            for arm in first.arms:
                factor = slower if arm == RECORDED_XLA else 1.0
                step_ms = (8.0 + block) * factor * (1 + 0.001 * (block % 3) * generation)
                done = finished(block, arm, metrics={"step_ms": step_ms, "val_accuracy": 0.875})
                key = f"{done.trial.key}-{generation}"
                trials.append(replace(done, trial=replace(done.trial, key=key)))
        identity = replace(first.identity, generation=generation)
        with writer(made) as opened:
            opened.open_sweep(opening(made, identity, blocks=7))
            opened.record(trials)
            opened.close("complete", {})
    return made


@pytest.fixture
def run(home: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Run:
    """`rnnsweep …` on that home: code, stdout, stderr."""
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

    kept = tmp_path / "kept.json"
    assert run("report", "quickstart#1", "-o", str(kept))[0] == 0
    code, out, _ = run("compare", str(kept), "quickstart", "--format", "json")
    assert code == 0
    assert [arm["verdict"] for arm in json.loads(out)["arms"]] == ["same", "slower"]
    target = tmp_path / "changes.md"
    code, out, err = run("compare", str(kept), "quickstart", "-o", str(target))
    assert (code, out, err) == (0, "", f"wrote {target}\n")
    assert "| verdict |" in target.read_text()


def test_nothing_that_could_fail_is_warned_of(run: Run, tmp_path: Path) -> None:
    kept = written(sweep([], [PORTABLE]), tmp_path / "empty.json")
    code, _, err = run("compare", str(kept), "quickstart", "--fail-on", "slower")
    assert code == 0
    assert "Warning: no arm could be judged" in err
    code, _, err = run("compare", str(kept), "quickstart", "--fail-on", "inconclusive")
    assert code == 1
    assert err.endswith("--fail-on inconclusive: no arm could be judged\n")
    both = ("--fail-on", "inconclusive", "--fail-on", "slower")
    assert run("compare", "quickstart#2", "quickstart#1", *both)[0] == 0


def test_on_another_machine_nothing_of_the_code_can_be_told() -> None:
    moved = tuple(Arm(arm.implementation, on_cpu("Intel Xeon", 2)) for arm in (PORTABLE, XLA))
    found = between(measured(), measured(arms=moved, factor=2.0))
    assert found.all_inconclusive
    assert as_json(found, ())["inconclusive"]
    assert not between(measured(), measured(factor=2.0)).all_inconclusive


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("quickstart#1", "quickstart#9"), "quickstart#9"),
        (("none.json", "quickstart"), "none.json: expected a report's JSON file"),
        (("quickstart#2", "quickstart"), "one sweep on both sides (quickstart#2)"),
        (("quickstart#1", "quickstart#2", "--margin", "0"), "margin"),
        (("quickstart#1", "quickstart#2", "--fail-on", "louder"), "louder"),
    ],
)
def test_wrong_input_is_exit_code_2(run: Run, arguments: tuple[str, ...], told: str) -> None:
    code, out, err = run("compare", *arguments)
    assert (code, out) == (2, "")
    assert told in err
    assert "Traceback" not in err
