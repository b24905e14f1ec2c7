"""Two sweeps side by side: what changed beyond noise, what else differs, and exit codes."""

import json
import math
import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, get_args

import pytest

from orchestrator.analysis.statistics.formatting import ABSENT
from orchestrator.core.arms import Arm
from orchestrator.core.records import SweepRecord
from orchestrator.core.trial import DatasetRecord, FinishedTrial
from orchestrator.report.compare.changes import Changes, FailOn, compare_sides, failing
from orchestrator.report.compare.document import changes_document
from orchestrator.report.compare.sides import InvalidSide, Side, read_report, side_of
from orchestrator.report.compare.wording import change_bullets, change_notes
from orchestrator.report.document import Kind
from orchestrator.report.formats.json_format import REPORT
from orchestrator.report.render import render, summarise
from orchestrator.report.wording import ArmNames
from tests.building.arms import CPU, PORTABLE, XLA
from tests.building.hardware import build_cpu_use
from tests.building.records import build_record
from tests.building.trials import build_fingerprint, build_trial, change_trial
from tests.orchestrator.cli.typed_commands import Run, type_command

FUSED = Arm("torch/fused", CPU)
NAN = "non_finite: epoch 3: expected finite metrics; loss is nan"
DIGITS = DatasetRecord("digits", "ab" * 32, "scikit-learn", 1437, 360)
SETTINGS = {"epochs": 3, "cell": "lstm"}

Change = Callable[[FinishedTrial], FinishedTrial]


def measured(
    configs: int = 8,
    *,
    factor: float = 1.0,
    noise: float = 0.01,
    arms: tuple[Arm, ...] = (PORTABLE, XLA),
    accuracy: float = 0.9,
    seed: int = 0,
    change: Change = lambda finished: finished,
    **changes: Any,
) -> SweepRecord:
    """Make a sweep in which the last arm takes `factor` times as long as the others."""
    dice = random.Random(seed)
    trials = []
    for block in range(configs):
        for arm in arms:
            step_ms = 5.0 * (block + 1) * (factor if arm == arms[-1] else 1.0)
            metrics = {
                "step_ms": step_ms * dice.lognormvariate(0, noise),
                "val_accuracy": accuracy + dice.gauss(0, 0.001),
            }
            trials.append(change(build_trial(block, arm, metrics=metrics, trainer_trials=0)))
    return build_record(trials, arms, **{"datasets": (DIGITS,), "settings": SETTINGS, **changes})


def adding(factor: float = 1.0, **metrics: float) -> Change:
    """Return a change that adds metrics, multiplied on XLA; configs differ a little."""

    def change(finished: FinishedTrial) -> FinishedTrial:
        by = factor * (1 + 0.002 * (finished.block % 3)) if finished.arm == XLA else 1.0
        own = {name: value * by for name, value in metrics.items()}
        return change_trial(finished, metrics={**finished.metrics, **own})

    return change


def failed(arm: Arm, failure: str = "error: no kernel image", blocks: int = 8) -> Change:
    """Return a change that makes the first trials of an arm fail."""

    def change(finished: FinishedTrial) -> FinishedTrial:
        if finished.arm != arm or finished.block >= blocks:
            return finished
        return change_trial(finished, status="failed", failure=failure, metrics={})

    return change


def between(before: SweepRecord, after: SweepRecord) -> Changes:
    one = Side("old", replace(before, run_id="before"))
    return compare_sides(one, Side("new", replace(after, run_id="after")))


def accuracies(changes: Changes) -> list[str | None]:
    compared = [arm.comparison.result for arm in changes.arms]
    return [result.verdict if result else None for result in compared]


@pytest.mark.parametrize(
    ("factor", "verdict"),
    [(1.0, "same"), (1.2, "slower"), (0.8, "faster"), (1.045, "inconclusive")],
)
def test_each_arm_is_compared_with_itself(factor: float, verdict: str) -> None:
    changes = between(measured(noise=0.008), measured(noise=0.008, factor=factor, seed=1))
    assert [arm.comparison.verdict for arm in changes.arms] == ["same", verdict]
    speedup = changes.arms[1].comparison.speedup
    assert speedup is not None
    assert speedup.low < 1 / factor < speedup.high
    assert [arm.after for arm in failing(changes, ["changed"])] == (
        [XLA] if verdict in ("faster", "slower") else []
    )


def test_configs_are_matched_in_any_block_and_repeats_averaged() -> None:
    before = measured()
    moved = [
        change_trial(t, block=7 - t.block, config={"units": t.config["units"]})
        for t in before.trials
    ]
    repeats = [change_trial(t, repeat=1, metrics={"step_ms": 40.0}) for t in moved[:2]]
    unfinished = [change_trial(t, repeat=2, status="failed") for t in moved]
    settings = {**SETTINGS, "batch_size": 32}
    after = replace(before, trials=(*moved, *repeats, *unfinished), settings=settings)
    changes = between(before, after)
    assert [len(arm.comparison.pairs) for arm in changes.arms] == [8, 8]
    pairs = changes.arms[0].comparison.pairs
    assert pairs[0].arm == pytest.approx((pairs[0].baseline * 40.0) ** 0.5)
    assert all(pair.arm == pair.baseline for pair in pairs[1:])
    assert changes.configs[0] == {"batch_size": 32, "units": 16}
    assert changes.differences == ()


def changes_on_a_busy_machine(configs: int, disturbed: int) -> Changes:
    """Return the changes where trials of the first configs were disturbed, and XLA is slower."""

    def change(finished: FinishedTrial) -> FinishedTrial:
        load = {"other_processes": 43.0} if finished.block < disturbed else {}
        return change_trial(finished, disturbance=load)

    return between(measured(configs), measured(configs, factor=1.5, change=change))


def test_disturbed_trials_are_left_out_where_six_configs_are_quiet() -> None:
    changes = changes_on_a_busy_machine(configs=8, disturbed=2)
    comparison = changes.arms[1].comparison
    assert (len(comparison.pairs), comparison.label) == (6, "slower")
    assert XLA not in dict(changes.unjudged)
    assert len(failing(changes, ["slower"])) == 1


def test_a_change_on_a_busy_machine_is_open_unless_it_counts() -> None:
    changes = changes_on_a_busy_machine(configs=7, disturbed=3)
    comparison = changes.arms[1].comparison
    assert (len(comparison.pairs), comparison.label) == (7, "slower (busy)")
    assert XLA in dict(changes.unjudged)
    assert changes.all_inconclusive
    assert failing(changes, ["slower"]) == ()
    counted = replace(changes, busy_counts=True)
    assert counted.unjudged == ()
    assert not counted.all_inconclusive
    assert [arm.after for arm in failing(counted, ["slower"])] == [XLA]


def repeated(repeats: int, factor: float = 1.0, seed: int = 0) -> SweepRecord:
    """Return a sweep of one config, in which XLA takes `factor` times as long."""
    record = measured(repeats, factor=factor, seed=seed)
    trials = [change_trial(t, block=0, repeat=t.block, config={"units": 16}) for t in record.trials]
    return replace(record, trials=tuple(trials), blocks=1, repeats=repeats)


@pytest.mark.parametrize(("repeats", "label"), [(6, "slower"), (5, "inconclusive (few configs)")])
def test_repeats_of_the_only_config_of_both_sides_decide(repeats: int, label: str) -> None:
    changes = between(repeated(repeats), repeated(repeats, factor=1.2, seed=1))
    assert changes.arms[1].comparison.label == label


def test_accuracy_is_compared_on_the_same_data_and_settings_only() -> None:
    before, worse = measured(), measured(accuracy=0.85, seed=5)
    assert accuracies(between(before, worse)) == ["worse"] * 2
    assert accuracies(between(before, measured(seed=9))) == ["equal"] * 2
    after = measured(
        environment={"tensorflow": "2.22.0", "python": "3.11.9", "cudnn": "9.3"},
        settings={**SETTINGS, "epochs": 5},
        datasets=(replace(DIGITS, digest="cd" * 32),),
        accuracy=0.85,
    )
    changes = between(before, after)
    assert {(d.subject, d.name): (d.before, d.after) for d in changes.differences} == {
        ("setting", "epochs"): ("3", "5"),
        ("data", "digits"): ("ab" * 32, "cd" * 32),
        ("version", "tensorflow"): ("2.21.0", "2.22.0"),
        ("version", "cudnn"): ("–", "9.3"),
    }
    assert (changes.unlike_inputs, accuracies(changes)) == ("settings and data", [None, None])
    assert failing(changes, ["worse"]) == ()


@pytest.mark.parametrize("is_after", [True, False])
def test_accuracy_is_inconclusive_if_training_diverges_on_one_side_only(is_after: bool) -> None:
    sides = measured(14), measured(14, change=failed(XLA, NAN, blocks=7), seed=1)
    changes = between(*(sides if is_after else sides[::-1]))
    assert accuracies(changes) == ["equal", "inconclusive"]
    xla = changes.arms[1]
    assert (len(xla.comparison.pairs), xla.lost) == (7, 7 if is_after else 0)
    assert changes.unjudged == ((XLA, xla.diverged_alone),)
    assert accuracies(between(sides[1], sides[1])) == ["equal"] * 2


@pytest.mark.parametrize(
    ("metric", "factor", "verdict", "ways"),
    [
        ("peak_rss_mib", 1.5, "faster", {"larger", "changed"}),
        ("peak_rss_mib", 0.7, "slower", {"changed"}),
        ("peak_gpu_mib", 1.02, "same", set()),
        ("compile_s", 2.0, "faster", set()),
    ],
)
def test_memory_and_compile_times_are_compared(
    metric: str, factor: float, verdict: str, ways: set[str]
) -> None:
    before, after = (measured(change=adding(by, **{metric: 1000.0})) for by in (1.0, factor))
    changes = between(before, after)
    assert [{m: need.verdict for m, need in arm.needs.items()} for arm in changes.arms] == [
        {metric: "same"},
        {metric: verdict},
    ]
    assert {way for way in get_args(FailOn) if failing(changes, [way])} == ways


def test_memory_is_that_of_fresh_trainers() -> None:
    def warm(finished: FinishedTrial) -> FinishedTrial:
        own = adding(peak_rss_mib=1000.0, compile_s=2.0)(finished)
        return change_trial(own, trainer_trials=3 if finished.block else 0)

    changes = between(measured(change=warm), measured(change=warm))
    assert [list(arm.needs) for arm in changes.arms] == [["compile_s"]] * 2


@pytest.mark.parametrize(
    ("configs", "accuracy", "kind"),
    [(8, 0.5, Kind.SLOWER), (8, 0.9, Kind.SAME), (4, 0.5, Kind.INCONCLUSIVE)],
)
def test_sweeps_without_times_are_compared_by_their_results(
    configs: int, accuracy: float, kind: Kind
) -> None:
    def without_times(finished: FinishedTrial) -> FinishedTrial:
        return change_trial(finished, metrics={"val_accuracy": finished.metrics["val_accuracy"]})

    before, after = (
        measured(configs, accuracy=of_side, change=without_times, seed=seed)
        for seed, of_side in enumerate((0.9, accuracy))
    )
    changes = between(before, after)
    assert [arm.configs for arm in changes.arms] == [configs, configs]
    assert {bullet.kind for bullet in change_bullets(changes, ArmNames(None))} == {kind}
    is_open = kind == Kind.INCONCLUSIVE
    reasons = {result.reason for arm in changes.arms for result in arm.results}
    assert {reason for _, reason in changes.unjudged} == (reasons if is_open else set())
    assert changes.all_inconclusive == is_open
    assert len(failing(changes, ["worse"])) == (2 if kind == Kind.SLOWER else 0)
    (table,) = changes_document(changes).sections[-1].tables
    assert {row[table.headers.index("verdict")] for row in table.rows} == {ABSENT}


def test_arms_without_a_counterpart_or_a_complete_trial_are_unjudged() -> None:
    changes = between(measured(arms=(PORTABLE, XLA)), measured(arms=(PORTABLE, FUSED)))
    assert (changes.only_before, changes.only_after) == ((XLA,), (FUSED,))
    assert changes.unjudged == ((XLA, "only old has it"),)
    changes = between(measured(), measured(change=failed(XLA)))
    assert changes.unjudged == ((XLA, f"no trial of {XLA} in new is complete"),)


def test_another_machine_is_reported_and_fails_nothing() -> None:
    moved_arms = tuple(
        Arm(arm.implementation, build_cpu_use("Intel Xeon", 2)) for arm in (PORTABLE, XLA)
    )
    changes = between(measured(), measured(arms=moved_arms, factor=2.0))
    assert [arm.is_on_other_hardware for arm in changes.arms] == [True, True]
    assert changes.arms[1].comparison.verdict == "slower"
    assert (failing(changes, ["slower", "changed"]), changes.all_inconclusive) == ((), True)
    assert [difference.subject for difference in changes.differences] == ["hardware"]
    one, *several = (Arm("torch/fused", build_cpu_use(name, 2)) for name in "ABC")
    assert between(measured(arms=(*several,)), measured(arms=(one,))).arms == ()


@dataclass(frozen=True)
class Slowdown:
    """Which arms of a sweep became slower."""

    name: str
    arms: tuple[Arm, ...]
    slower: tuple[Arm, ...]
    factor: float
    is_of_machine: bool

    def after(self, finished: FinishedTrial) -> FinishedTrial:
        factor = self.factor if finished.arm in self.slower else 1
        step_ms = finished.metrics["step_ms"] * factor
        return change_trial(finished, metrics={"step_ms": step_ms})


BOTH, ONE = (PORTABLE, XLA), (XLA,)
SLOWDOWNS = [
    Slowdown("all arms", BOTH, BOTH, factor=1.3, is_of_machine=True),
    Slowdown("one of two arms", BOTH, ONE, factor=1.3, is_of_machine=False),
    Slowdown("no arm", BOTH, (), factor=1.0, is_of_machine=False),
    Slowdown("the only arm", ONE, ONE, factor=1.3, is_of_machine=False),
]


@pytest.mark.parametrize("slowdown", SLOWDOWNS, ids=lambda slowdown: slowdown.name)
def test_a_change_of_all_arms_is_attributed_to_the_machine(slowdown: Slowdown) -> None:
    before = measured(arms=slowdown.arms)
    after = measured(arms=slowdown.arms, change=slowdown.after, seed=2)
    assert between(before, after).moved_together == slowdown.is_of_machine


def written(record: SweepRecord, path: Path) -> Path:
    path.write_text(render(summarise(record), "json"))
    return path


def test_a_report_file_is_a_side(tmp_path: Path) -> None:
    record = measured(change=failed(XLA, NAN, blocks=1))
    first = change_trial(record.trials[0], metrics={**record.trials[0].metrics, "loss": math.inf})
    record = replace(record, trials=(first, *record.trials[1:]))
    baseline = read_report(written(record, tmp_path / "baseline.json"))
    assert baseline.label == "quickstart (baseline.json)"
    assert "loss" not in baseline.record.trials[0].metrics
    changes = compare_sides(baseline, Side("new", replace(measured(factor=1.3), run_id="after")))
    stored = between(record, measured(factor=1.3))
    assert [arm.comparison.speedup for arm in changes.arms] == [
        arm.comparison.speedup for arm in stored.arms
    ]
    assert (accuracies(changes), changes.differences) == (accuracies(stored), ())
    assert changes.unjudged == stored.unjudged


def different(arm: Arm) -> Change:
    """Return a change that gives trials fingerprints, and an arm another model's."""

    def change(finished: FinishedTrial) -> FinishedTrial:
        factor = 1.5 if finished.arm == arm else 1.0
        return change_trial(finished, fingerprint=build_fingerprint(factor))

    return change


@pytest.mark.parametrize("is_file", [False, True])
def test_an_arm_of_different_mathematics_is_named(tmp_path: Path, is_file: bool) -> None:
    before = replace(measured(change=different(XLA)), run_id="before")
    if is_file:
        earlier = read_report(written(before, tmp_path / "before.json"))
    else:
        earlier = side_of("old", before)
    same, later = different(FUSED), replace(measured(factor=1.3), run_id="after")
    for change, sides in (
        (different(XLA), [earlier.label, "new"]),  # compared: it is the same arm as before
        (same, [earlier.label]),  # it computes something else than before
    ):
        trials = tuple(change(trial) for trial in later.trials)
        changes = compare_sides(earlier, side_of("new", replace(later, trials=trials)))
        of_portable, of_xla = changes.arms
        assert (of_portable.different_mathematics, of_portable.verdict) == ((), "same")
        assert list(of_xla.different_mathematics) == sides
        assert of_xla.verdict == ("slower" if len(sides) == 2 else "inconclusive")
        assert of_xla.comparison.different_mathematics is (len(sides) == 1)
        (note,) = [n for n in change_notes(changes, ArmNames(None)) if "different math" in n]
        assert all(label in note for label in sides)


WHOLE = render(summarise(measured(1)), "json")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "received: no such file"),
        ("not json", "another content"),
        (
            f'{{"format": "rnnsweep-report", "version": {REPORT.number}}}',
            "another content (KeyError: 's",
        ),
        ('{"format": "rnnsweep-report", "version": 3}', "format 3, from before the first release"),
        (WHOLE.replace("rnnsweep-report", "rnnsweep-plan"), "received format 'rnnsweep-plan'"),
        (WHOLE.replace('"repeats": 1', '"repeats": "one"'), "repeats: Input should be a valid int"),
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
    assert str(error.value).startswith(f"{path}: ")
    assert message in str(error.value)


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Run:
    """Return a function that runs `rnnsweep compare` among report files: old, slow, empty."""
    records = {
        "old": measured(arms=(PORTABLE, XLA, FUSED)),
        "slow": measured(factor=1.5, change=failed(PORTABLE)),
        "empty": build_record([], [PORTABLE]),
        "other": measured(workload="char_rnn"),
        "busy": measured(
            factor=1e3, change=partial(change_trial, disturbance={"host_steal": 43.0})
        ),
    }
    for name, record in records.items():
        written(replace(record, run_id=name), tmp_path / f"{name}.json")
    monkeypatch.chdir(tmp_path)
    return partial(type_command, capfd, "compare")


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ("old.json slow.json", 0, ""),
        ("old.json slow.json -o changes.md", 0, "wrote changes.md"),
        (
            "old.json slow.json --fail-on slower",
            1,
            "--fail-on: tensorflow/portable+xla on AMD EPYC, 2 CPUs\n",
        ),
        (
            "old.json slow.json --fail-on inconclusive",
            1,
            "torch/fused on AMD EPYC, 2 CPUs (only quickstart",
        ),
        ("empty.json old.json --fail-on slower", 0, "Warning: no arm could be judged"),
        ("empty.json old.json --fail-on inconclusive", 1, "no arm could be judged\n"),
        ("old.json busy.json --fail-on slower", 0, "--busy-counts"),
        (
            "old.json busy.json --fail-on slower --busy-counts",
            1,
            "on: tensorflow/portable+xla on AMD EPYC, 2 CPUs",
        ),
        ("old.json slow.json --accept-provisional", 2, "--busy-counts"),
        ("old.json old.json", 2, "one sweep on both sides (quickstart (old.json))"),
        ("old.json other.json", 2, "expected two sweeps of one workload"),
        ("old.json slow.json --margin 0", 2, "margin"),
    ],
)
def test_exit_codes(run: Run, arguments: str, code: int, message: str) -> None:
    received, out, err = run(*arguments.split())
    assert received == code
    assert bool(out) == (code != 2 and " -o " not in arguments)
    assert message in err
    assert "Traceback" not in err


def test_json_has_the_verdict_of_each_arm_and_what_failed(run: Run) -> None:
    words = ("old.json", "slow.json", "--format", "json", "--fail-on", "slower")
    code, out, _ = run(*words)
    content = json.loads(out)
    assert (code, content["format"], content["workload"]) == (1, "rnnsweep-compare", "image_rows")
    verdicts = {
        arm["after"]["implementation"]: arm["comparison"]["verdict"] for arm in content["arms"]
    }
    assert verdicts[XLA.implementation] == "slower"
    assert content["failing"] == [str(XLA)]


def test_sides_without_a_common_config_are_told_apart_from_those_without_a_common_arm() -> None:
    others = replace(measured(), trials=measured(16).trials[16:])
    changes = between(measured(), others)
    assert changes.arms and not any(arm.comparison.pairs for arm in changes.arms)
    (bullet,) = change_bullets(changes, ArmNames(None))
    assert bullet.kind == Kind.INCONCLUSIVE and "share no config" in bullet.text
