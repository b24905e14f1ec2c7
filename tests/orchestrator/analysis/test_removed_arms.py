"""Arms that have left a sweep: they hold nobody up, and are compared over what they did."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from io import StringIO

from orchestrator.analysis.comparisons.ranking import rankings
from orchestrator.analysis.pairing.complete_rounds import match
from orchestrator.core.arms import Arm
from orchestrator.core.records import SweepRecord
from orchestrator.core.trial import FinishedTrial
from orchestrator.report.render import render, summarise
from tests.orchestrator.sample_records import CPU, GPU, PORTABLE, UNROLL, XLA, sweep, trial

EVERY = (PORTABLE, XLA, UNROLL)
TIMES = {PORTABLE: 10.0, XLA: 8.0, UNROLL: 5.0}


def trials(arm: Arm, blocks: Sequence[int]) -> list[FinishedTrial]:
    ms = TIMES.get(arm, 10.0)
    return [trial(arm, block, step_ms=ms * (1 + 0.001 * (block % 3))) for block in blocks]


def grown(left: Sequence[Arm] = (UNROLL,), arms: Sequence[Arm] = EVERY) -> SweepRecord:
    """Six blocks of all arms; then some leave the spec, and the others have twelve."""
    staying = tuple(arm for arm in arms if arm not in left)
    made = [each for arm in staying for each in trials(arm, range(12))]
    made += [each for arm in left for each in trials(arm, range(6))]
    return sweep(made, arms, current=staying, expected_trials=12 * len(staying) + 6 * len(left))


def test_arms_that_stay_are_compared_over_every_block() -> None:
    summary = summarise(grown())
    xla, unroll = summary.comparisons
    assert (len(xla.pairs), len(unroll.pairs)) == (12, 6)
    assert (xla.verdict, unroll.verdict) == ("faster", "faster")
    assert (summary.complete_blocks, summary.gaps) == (tuple(range(12)), ())
    assert summary.sweep.trials.missing == 0
    by_arm = {arm.arm: arm for arm in summary.arms}
    assert [by_arm[arm].planned for arm in EVERY] == [True, True, False]
    assert [by_arm[arm].used for arm in EVERY] == [12, 12, 6]
    assert by_arm[UNROLL].trials.missing == 0
    assert summary.former == (UNROLL,)


def test_the_report_says_who_has_left() -> None:
    said = " ".join(render(summarise(grown()), "text").split())
    assert (
        "The last start of the sweep did not include tensorflow/portable+unroll: compared over "
        "the rounds that the other arms completed, too."
    ) in said
    whole = render(summarise(grown()), "markdown")
    assert "tensorflow/portable+unroll (of an earlier start)" in whole.replace("\\", "")
    assert "12 complete on every arm" in said
    apart = "Not matched, over all complete trials of the arm: tensorflow/portable+unroll."
    assert apart in said  # its configs are but half of the others'
    assert "The last start" not in render(summarise(grown(left=())), "text")
    assert "Not matched" not in render(summarise(grown(left=())), "text")


def test_what_an_earlier_version_wrote_has_no_former_arms() -> None:
    record = grown()
    whole = sweep(record.trials, EVERY)
    assert match(whole).blocks == tuple(range(6))
    assert [arm.planned for arm in summarise(whole).arms] == [True] * 3


def test_a_round_that_a_former_arm_alone_completed_counts_for_nobody() -> None:
    """Of its rounds 0 to 5 the others lack the last one."""
    record = grown()
    lacking = [t for t in record.trials if (t.arm, t.block) != (XLA, 5)]
    summary = summarise(sweep(lacking, EVERY, current=(PORTABLE, XLA)))
    assert [len(each.pairs) for each in summary.comparisons] == [11, 5]
    (gap,) = summary.gaps
    assert (gap.block, gap.missing) == (5, ((XLA, "missing"),))


def test_former_arms_alone_are_compared_with_one_another() -> None:
    """The next start has other hardware, of which no trial has ended yet."""
    later = Arm("tensorflow/portable", GPU)
    made = [each for arm in EVERY for each in trials(arm, range(7))]
    summary = summarise(sweep(made, (later, *EVERY), current=(later,)), f"{PORTABLE}")
    assert summary.complete_blocks == tuple(range(7))
    assert [len(c.pairs) for c in summary.comparisons if c.arm in EVERY] == [7, 7]


def test_a_ranking_of_those_that_stay_loses_no_blocks() -> None:
    (ranking,) = rankings(match(grown()), "step_ms", 0.02, {})
    assert (ranking.leader, ranking.blocks, len(ranking.behind)) == (XLA, 12, 1)
    (alone,) = rankings(match(grown(left=(XLA, UNROLL))), "step_ms", 0.02, {})
    assert (alone.leader, alone.blocks, len(alone.behind)) == (UNROLL, 6, 2)


def test_a_faster_arm_that_left_is_told_beside_the_ranking() -> None:
    """UNROLL is the fastest, and has but six of twelve blocks."""
    arms = (*EVERY, Arm("torch/portable", CPU))
    summary = summarise(grown(arms=arms))
    (ranking,) = summary.rankings
    assert (ranking.leader, ranking.left_out) == (XLA, (UNROLL,))
    shown = " ".join(render(summary, "text").split())
    sentence = shown.partition(f"on {CPU}: tensorflow/portable+xla is the fastest")[2]
    assert (
        "over 12 blocks; 1 other further behind; tensorflow/portable+unroll, of an earlier start, "
        "is not ranked"
    ) in sentence
    assert "not ranked" not in render(summarise(grown(left=(), arms=arms)), "text")


def test_a_former_arm_with_every_round_is_ranked_with_the_others() -> None:
    """The same sweep was run again where one arm's hardware is not."""
    away = Arm("tensorflow/portable", GPU)
    record = grown(left=(), arms=(PORTABLE, XLA, away))
    there = sweep(record.trials, (PORTABLE, XLA, away), current=(PORTABLE, XLA))
    found = rankings(match(there), "step_ms", 0.02, {})
    assert {(each.among, each.within) for each in found} == {
        ("implementations", str(CPU)),
        ("hardware", "tensorflow/portable"),
        ("arms", ""),
    }
    assert {each.blocks for each in found} == {12}


def test_what_a_param_explains_is_told_by_arms_that_have_every_block() -> None:
    """UNROLL, a tenth of the others' time, has the smaller half: that is no doing of the param."""
    times = {PORTABLE: 10.0, XLA: 10.0, UNROLL: 1.0}
    made = [
        trial(arm, block, step_ms=ms, config={"units": 16 if block < 6 else 32, "layers": block})
        for arm, ms in times.items()
        for block in range(6 if arm == UNROLL else 12)
    ]
    found = summarise(sweep(made, EVERY, current=(PORTABLE, XLA))).sizes
    assert {each.param: each.explains for each in found} == {"units": 0.0, "layers": 0.0}


def test_a_row_says_whether_its_trial_is_compared() -> None:
    record = grown()
    made = [*record.trials, trial(UNROLL, 12), trial(PORTABLE, 13, status="failed")]
    content = render(summarise(sweep(made, EVERY, current=(PORTABLE, XLA))), "csv")
    rows = list(csv.DictReader(StringIO(content, newline="")))
    matched = {(row["implementation"], int(row["block"])): row["matched"] for row in rows}
    assert matched.pop((UNROLL.implementation, 12)) == "false"  # no round of the others
    assert matched.pop((PORTABLE.implementation, 13)) == "false"
    assert set(matched.values()) == {"true"}
