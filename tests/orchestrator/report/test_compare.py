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

from orchestrator.analysis.contrasts.contrast import Contrast, Qualifier, Question, Verdict
from orchestrator.analysis.summary import summarise
from orchestrator.core.arms import Arm
from orchestrator.core.records import SweepRecord
from orchestrator.core.trial import DatasetRecord, FinishedTrial
from orchestrator.report.compare.changes import Changes, FailOn, compare_sides, failing
from orchestrator.report.compare.document import changes_document
from orchestrator.report.compare.sides import InvalidSide, Side, read_report, side_of
from orchestrator.report.formats.json_format import REPORT, summary_json
from tests.building.arms import CPU, PORTABLE, XLA
from tests.building.hardware import build_cpu_use
from tests.building.records import build_record
from tests.building.trials import build_fingerprint, build_trial, change_trial
from tests.orchestrator.cli.typed_commands import Run, type_command

FUSED = Arm("torch/fused", CPU)
NAN = "non_finite: epoch 3: loss is nan"
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


def of(changes: Changes, arm: Arm, metric: str = "step_ms") -> Contrast:
    """Return the change of an arm by a metric, which is compared."""
    contrast = changes.contrast(arm, metric)
    assert contrast is not None
    return contrast


def verdicts(changes: Changes, metric: str) -> list[Verdict]:
    return [contrast.verdict for contrast in changes.contrasts if contrast.metric == metric]


def accuracies(changes: Changes) -> list[Verdict]:
    return verdicts(changes, "val_accuracy")


@pytest.mark.parametrize(
    ("factor", "verdict"),
    [(1.0, "same"), (1.2, "worse"), (0.8, "better"), (1.045, "open")],
)
def test_each_arm_is_compared_with_itself(factor: float, verdict: str) -> None:
    changes = between(measured(noise=0.008), measured(noise=0.008, factor=factor, seed=1))
    assert verdicts(changes, "step_ms") == ["same", verdict]
    change = of(changes, XLA)
    assert (change.question, change.reference) == (Question.CHANGE, str(XLA))
    assert change.estimate.low < 1 / factor < change.estimate.high
    assert [c.subject for c in failing(changes, ["changed"])] == (
        [str(XLA)] if verdict in ("worse", "better") else []
    )


@pytest.mark.parametrize(
    ("metric", "before", "after", "deviation", "verdict"),
    [
        ("step_ms", 1.0, 1.04, 0.02, "open"),
        ("step_ms", 1.0, 1.08, 0.02, "worse"),
        ("val_accuracy", 0.9, 0.896, 0.002, "open"),
        ("val_accuracy", 0.9, 0.892, 0.002, "worse"),
    ],
)
def test_a_change_whose_mean_is_within_the_margin_is_open(
    metric: str, before: float, after: float, deviation: float, verdict: str
) -> None:
    """Even if its interval excludes no change: the margins are 5 %, and 0.005."""
    sides = []
    for value, spread in ((before, 0.0), (after, deviation)):
        trials = [
            build_trial(block, arm, metrics={metric: value + spread * (-1) ** block})
            for block in range(8)
            for arm in (PORTABLE, XLA)
        ]
        sides.append(build_record(trials))
    change = of(between(*sides), XLA, metric)
    zero = 1.0 if metric == "step_ms" else 0.0
    assert not change.estimate.low <= zero <= change.estimate.high
    assert change.verdict == verdict


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
    first = of(changes, PORTABLE)
    assert [c.blocks for c in changes.of_time] == [8, 8]
    assert first.lowest == pytest.approx((before.trials[0].metrics["step_ms"] / 40.0) ** 0.5)
    assert first.highest == of(changes, XLA).highest == 1.0
    assert changes.differences == ()


def changes_on_a_busy_machine(configs: int, disturbed: int) -> Changes:
    """Return the changes where trials of the first configs were disturbed, and XLA is slower."""

    def change(finished: FinishedTrial) -> FinishedTrial:
        load = {"other_processes": 43.0} if finished.block < disturbed else {}
        return change_trial(finished, disturbance=load)

    return between(measured(configs), measured(configs, factor=1.5, change=change))


def test_disturbed_trials_are_left_out_where_six_configs_are_quiet() -> None:
    changes = changes_on_a_busy_machine(configs=8, disturbed=2)
    change = of(changes, XLA)
    assert (change.blocks, change.verdict, change.qualifier) == (6, "worse", None)
    assert XLA not in dict(changes.unjudged)
    assert len(failing(changes, ["slower"])) == 1


def test_a_change_on_a_busy_machine_is_open_unless_it_counts() -> None:
    changes = changes_on_a_busy_machine(configs=7, disturbed=3)
    change = of(changes, XLA)
    assert (change.blocks, change.verdict, change.qualifier) == (7, "worse", Qualifier.BUSY)
    assert changes.disturbance == {"other_processes": 43.0}
    assert XLA in dict(changes.unjudged)
    assert failing(changes, ["slower"]) == ()
    counted = replace(changes, busy_counts=True)
    assert counted.unjudged == ()
    assert [c.subject for c in failing(counted, ["slower"])] == [str(XLA)]


@pytest.mark.parametrize("busy_counts", [True, False])
def test_nothing_is_judged_if_all_that_is_decided_is_of_a_busy_machine(busy_counts: bool) -> None:
    def change(finished: FinishedTrial) -> FinishedTrial:
        step_ms = finished.metrics["step_ms"]
        return change_trial(
            finished, disturbance={"host_steal": 30.0}, metrics={"step_ms": step_ms}
        )

    changes = between(measured(change=change), measured(factor=1.5, change=change))
    assert replace(changes, busy_counts=busy_counts).all_open is not busy_counts


def repeated(repeats: int, factor: float = 1.0, seed: int = 0) -> SweepRecord:
    """Return a sweep of one config, in which XLA takes `factor` times as long."""
    record = measured(repeats, factor=factor, seed=seed)
    trials = [change_trial(t, block=0, repeat=t.block, config={"units": 16}) for t in record.trials]
    return replace(record, trials=tuple(trials), blocks=1, repeats=repeats)


@pytest.mark.parametrize(("repeats", "verdict", "few"), [(6, "worse", False), (5, "open", True)])
def test_repeats_of_the_only_config_of_both_sides_decide(
    repeats: int, verdict: str, few: bool
) -> None:
    change = of(between(repeated(repeats), repeated(repeats, factor=1.2, seed=1)), XLA)
    assert (change.verdict, change.qualifier == Qualifier.FEW) == (verdict, few)


def test_accuracy_is_compared_on_the_same_data_and_settings_only() -> None:
    before, worse = measured(), measured(accuracy=0.85, seed=5)
    assert accuracies(between(before, worse)) == ["worse"] * 2
    assert accuracies(between(before, measured(seed=9))) == ["same"] * 2
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
    assert (changes.unlike_inputs, accuracies(changes)) == ("settings and data", [])
    assert failing(changes, ["worse"]) == ()


def test_whole_trainings_of_unlike_settings_are_not_compared() -> None:
    def timed_whole(finished: FinishedTrial) -> FinishedTrial:
        return change_trial(finished, metrics={"train_s": 10.0 + 0.01 * finished.block})

    before = measured(change=timed_whole)
    assert between(before, measured(change=timed_whole)).time_metric == "train_s"
    longer = measured(change=timed_whole, settings={**SETTINGS, "epochs": 5})
    assert between(before, longer).contrasts == ()


def test_a_search_with_another_seed_is_a_difference() -> None:
    changes = between(measured(), replace(measured(), seed=7, sampler="qmc"))
    assert {d.name for d in changes.differences if d.subject == "search"} == {"seed", "sampler"}
    assert changes.unlike_inputs is None


@pytest.mark.parametrize("is_after", [True, False])
def test_accuracy_is_open_if_training_diverges_on_one_side_only(is_after: bool) -> None:
    sides = measured(14), measured(14, change=failed(XLA, NAN, blocks=7), seed=1)
    changes = between(*(sides if is_after else sides[::-1]))
    assert accuracies(changes) == ["same", "open"]
    xla = changes.arms[1]
    assert (of(changes, XLA).blocks, xla.lost) == (7, 7 if is_after else 0)
    assert of(changes, PORTABLE).blocks == 14, "a failure of one arm concerns no other"
    assert xla.diverged == (("new",) if is_after else ("old",))
    assert [arm for arm, _ in changes.unjudged] == [XLA]
    assert accuracies(between(sides[1], sides[1])) == ["same"] * 2


@pytest.mark.parametrize(
    ("metric", "factor", "verdict", "ways"),
    [
        ("peak_rss_mib", 1.5, "worse", {"larger", "changed"}),
        ("peak_rss_mib", 0.7, "better", {"changed"}),
        ("peak_gpu_mib", 1.02, "same", set()),
        ("compile_s", 2.0, "worse", set()),
    ],
)
def test_memory_and_compile_times_are_compared(
    metric: str, factor: float, verdict: str, ways: set[str]
) -> None:
    before, after = (measured(change=adding(by, **{metric: 1000.0})) for by in (1.0, factor))
    changes = between(before, after)
    assert verdicts(changes, metric) == ["same", verdict]
    assert {way for way in get_args(FailOn) if failing(changes, [way])} == ways


def test_memory_is_that_of_fresh_trainers() -> None:
    def warm(finished: FinishedTrial) -> FinishedTrial:
        own = adding(peak_rss_mib=1000.0, compile_s=2.0)(finished)
        return change_trial(own, trainer_trials=3 if finished.block else 0)

    changes = between(measured(change=warm), measured(change=warm))
    assert verdicts(changes, "peak_rss_mib") == ["open"] * 2
    assert of(changes, XLA, "peak_rss_mib").qualifier == Qualifier.FEW
    assert of(changes, XLA, "compile_s").blocks == 7


@pytest.mark.parametrize(
    ("configs", "accuracy", "verdict"), [(8, 0.5, "worse"), (8, 0.9, "same"), (4, 0.5, "open")]
)
def test_sweeps_without_times_are_compared_by_their_results(
    configs: int, accuracy: float, verdict: str
) -> None:
    def without_times(finished: FinishedTrial) -> FinishedTrial:
        return change_trial(finished, metrics={"val_accuracy": finished.metrics["val_accuracy"]})

    before, after = (
        measured(configs, accuracy=of_side, change=without_times, seed=seed)
        for seed, of_side in enumerate((0.9, accuracy))
    )
    changes = between(before, after)
    assert changes.time_metric is None
    assert {(c.metric, c.blocks) for c in changes.contrasts} == {("val_accuracy", configs)}
    assert accuracies(changes) == [verdict] * 2
    is_open = verdict == "open"
    assert [arm for arm, _ in changes.unjudged] == ([PORTABLE, XLA] if is_open else [])
    assert changes.all_open == is_open
    assert len(failing(changes, ["worse"])) == (2 if verdict == "worse" else 0)


def test_arms_without_a_counterpart_or_a_complete_trial_are_unjudged() -> None:
    changes = between(measured(arms=(PORTABLE, XLA)), measured(arms=(PORTABLE, FUSED)))
    assert (changes.only_before, changes.only_after) == ((XLA,), (FUSED,))
    assert changes.unjudged == ((XLA, "only old has it"),)
    changes = between(measured(), measured(change=failed(XLA)))
    assert [arm for arm, _ in changes.unjudged] == [XLA]
    assert changes.contrast(XLA, "step_ms") is None


def test_another_machine_is_reported_and_fails_nothing() -> None:
    moved_arms = tuple(
        Arm(arm.implementation, build_cpu_use("Intel Xeon", 2)) for arm in (PORTABLE, XLA)
    )
    changes = between(measured(), measured(arms=moved_arms, factor=2.0))
    assert [arm.is_on_other_hardware for arm in changes.arms] == [True, True]
    assert of(changes, moved_arms[1]).verdict == "worse"
    assert of(changes, moved_arms[1]).reference == str(XLA)
    assert (failing(changes, ["slower", "changed"]), changes.all_open) == ((), True)
    assert [arm for arm, _ in changes.unjudged] == [*moved_arms]
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
    path.write_text(summary_json(summarise(record)))
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
    assert (changes.contrasts, changes.differences) == (stored.contrasts, ())
    assert [arm for arm, _ in changes.unjudged] == [XLA]


@pytest.mark.parametrize("number", [10, 11, 12])
def test_a_report_file_of_a_former_format_is_a_side(tmp_path: Path, number: int) -> None:
    """Its answers are not read: only the sweep, its arms and its trials."""
    path = written(measured(), tmp_path / "former.json")
    content = json.loads(path.read_text())
    read = {"format", "written_by", "sweep", "arms", "trials"}
    former = {key: value for key, value in content.items() if key in read}
    path.write_text(json.dumps(former | {"version": number, "comparisons": []}))
    changes = compare_sides(read_report(path), Side("new", replace(measured(), run_id="after")))
    assert verdicts(changes, "step_ms") == ["same", "same"]


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
        (different(XLA), (earlier.label, "new")),  # compared: it is the same arm as before
        (same, (earlier.label,)),  # it computes something else than before
    ):
        trials = tuple(change(trial) for trial in later.trials)
        changes = compare_sides(earlier, side_of("new", replace(later, trials=trials)))
        assert [arm.other_mathematics for arm in changes.arms] == [(), sides]
        assert of(changes, PORTABLE).verdict == "same"
        of_xla = of(changes, XLA)
        is_other = len(sides) == 1
        assert of_xla.verdict == ("open" if is_other else "worse")
        assert (of_xla.qualifier == Qualifier.OTHER_MATHEMATICS) is is_other


WHOLE = summary_json(summarise(measured(1)))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "no such file"),
        ("not json", "cannot be read as a report"),
        (
            f'{{"format": "rnnsweep-report", "version": {REPORT.number}}}',
            "KeyError: 's",
        ),
        ('{"format": "rnnsweep-report", "version": 3}', "format 3, from before the first release"),
        (WHOLE.replace("rnnsweep-report", "rnnsweep-plan"), "its format is 'rnnsweep-plan'"),
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
            "--fail-on: tensorflow/portable+xla on AMD EPYC, 2 CPUs (step_ms slower)\n",
        ),
        (
            "old.json slow.json --fail-on open",
            1,
            "torch/fused on AMD EPYC, 2 CPUs (only quickstart",
        ),
        ("empty.json old.json --fail-on slower", 0, "Warning: no arm has a verdict"),
        ("empty.json old.json --fail-on open", 1, "no arm has a verdict\n"),
        ("old.json busy.json --fail-on slower", 0, "--busy-counts"),
        (
            "old.json busy.json --fail-on slower --busy-counts",
            1,
            "on: tensorflow/portable+xla on AMD EPYC, 2 CPUs",
        ),
        ("old.json slow.json --accept-provisional", 2, "--busy-counts"),
        ("old.json slow.json --fail-on inconclusive", 2, "another name now: open"),
        ("old.json old.json", 2, "the same sweep (quickstart (old.json))"),
        ("old.json other.json", 2, "different workloads"),
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
    changes = {c["metric"]: c for c in content["contrasts"] if c["subject"] == str(XLA)}
    assert {metric: c["verdict"] for metric, c in changes.items()} == {
        "step_ms": "worse",
        "val_accuracy": "same",
    }
    assert content["failing"] == [str(XLA)]
    assert content["all_open"] is False


def test_sides_without_a_common_config_are_told_apart_from_those_without_a_common_arm() -> None:
    others = replace(measured(), trials=measured(16).trials[16:])
    for after, arms in ((others, 2), (measured(arms=(FUSED,)), 0)):
        changes = between(measured(), after)
        assert (len(changes.arms), changes.contrasts, changes.all_open) == (arms, (), True)
        first = changes_document(changes).sections[0]
        assert (first.facts, first.tables) == ((), ())
        (doubt, *_) = first.doubts
        assert ("seed" in doubt.text) == bool(arms)


def test_the_document_has_a_fact_for_each_change_and_a_row_for_each_contrast() -> None:
    changes = between(
        measured(change=adding(peak_rss_mib=1000.0)),
        measured(
            factor=1.5, change=adding(2.0, peak_rss_mib=1000.0), environment={"tensorflow": "9"}
        ),
    )
    first, other = changes_document(changes).sections
    assert [fact.label for fact in first.facts] == ["slower", "same", "same", "larger"]
    (table,) = first.tables
    assert len(table.rows) == len(changes.contrasts) == 6
    assert len(other.tables[0].rows) == len(changes.differences)
