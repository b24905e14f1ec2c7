"""The machinery of the proof (`tests.benchmarks.trust`): small, and without a real training."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from orchestrator.spec import parse
from orchestrator.storage.home import SweepFolder
from tests.benchmarks.trusting import adaptive, equal, hog, noise, slowdown, synthetic, workload
from tests.benchmarks.trusting.findings import (
    Finding,
    Notebook,
    fewest_by_chance,
    most_by_chance,
)
from tests.benchmarks.trusting.sweeps import Answer, Question
from tests.orchestrator.sample_records import changed


def test_counts_are_judged_by_chance() -> None:
    assert fewest_by_chance(30, 0.95) == 25
    assert fewest_by_chance(400, 0.95) == 369
    assert most_by_chance(400, 0.05) == 31


def test_recorded_noise_remembers_and_keeps_doing_so_when_drawn() -> None:
    logs = noise.recorded()
    assert len(logs) >= 300
    assert abs(logs.mean()) < 1e-9
    drawn = noise.drawn(logs, 20_000, 0.1, np.random.default_rng(0))
    assert noise.adjacent_sd([float(each) for each in drawn]) == pytest.approx(0.1, rel=0.15)
    assert noise.autocorrelation(drawn, 1) == pytest.approx(
        noise.autocorrelation(logs, 1) * (1 - 1 / noise.STRETCH), abs=0.1
    )


def every_question() -> Iterator[Question]:
    yield from equal.questions(2)
    for percent in slowdown.SWEEPS:
        yield from slowdown.questions(percent, 2)


def test_every_sweep_of_the_proof_is_a_spec() -> None:
    names = []
    for question in every_question():
        spec = parse(question.spec(), source=question.name)
        assert spec.name == question.name
        names.append(spec.name)
    assert len(set(names)) == len(names)


def test_an_interrupted_proof_goes_on_and_a_fresh_one_begins_anew(tmp_path: Path) -> None:
    path = tmp_path / "results" / "trust.json"
    first = Notebook.open(path, fresh=False)
    assert first.once("trust-equal-00", "arms: two", lambda: {"verdict": "same"})["asked"]
    kept = Finding("equal", "that", "so", True, ("a detail",))
    first.conclude("equal", [kept], 12.34)
    again = Notebook.open(path, fresh=False)
    assert (again.begun, again.answers) == (first.begun, first.answers)
    assert again.all() == [kept]
    assert again.seconds == {"equal": 12.3}
    assert Notebook.open(path, fresh=True).answers == {}
    assert json.loads(path.read_text())["findings"]["equal"][0]["kept"] is True


def test_what_was_answered_is_asked_again_only_where_the_question_is_another(
    tmp_path: Path,
) -> None:
    book = Notebook.open(tmp_path / "trust.json", fresh=True)
    answers = iter([{"verdict": "same"}, {"verdict": "slower"}])
    for asked, verdict in (("blocks: 6", "same"), ("blocks: 6", "same"), ("blocks: 7", "slower")):
        assert book.once("one", asked, lambda: next(answers))["verdict"] == verdict


class Known(Notebook):
    """No sweep is run: all answers stand in the notebook."""

    def once(self, name: str, asked: str, find: Callable[[], Mapping[str, Any]]) -> Any:
        return self.answers[name]


def test_sweeps_whose_intervals_miss_too_often_break_the_promise(tmp_path: Path) -> None:
    book = Known(tmp_path / "trust.json")
    speedup = {"n": 6, "value": 1.0, "low": 0.99, "high": 1.01}
    for number in range(30):
        covers = number >= 6
        told = {"verdict": "same" if covers else "faster", "speedup": speedup, "covers": covers}
        book.answers[f"trust-equal-{number:02}"] = {**told, "disturbed": 0, "seconds": 20.0}
    (found,) = equal.run(tmp_path, book)
    assert not found.kept
    assert found.found == "24 cover it; 6 verdicts of a difference"


SPEEDUP = {"n": 6, "value": 0.95, "low": 0.94, "high": 0.96}


@pytest.mark.parametrize(("missed", "kept"), [(0, True), (1, True), (2, False)])
def test_one_slowdown_of_five_percent_in_ten_may_be_missed(
    tmp_path: Path, missed: int, kept: bool
) -> None:
    book = Known(tmp_path / "trust.json")
    told = {"speedup": SPEEDUP, "pairs": 6, "slices": 200, "trainers_s": 12.0, "pair_sd": 0.02}
    names = [f"trust-slow-20-{number:02}" for number in range(5)]
    names += [f"trust-slow-5-{number:02}" for number in range(10)]
    for index, name in enumerate(reversed(names)):
        book.answers[name] = {**told, "verdict": "inconclusive" if index < missed else "slower"}
    book.answers["trust-slow-whole"] = {**told, "verdict": "inconclusive", "pair_sd": 0.09}
    twenty, missing, five, holding, pairs = slowdown.run(tmp_path, book)
    assert (twenty.kept, five.kept) == (True, kept)
    assert (missing.kept, holding.kept) == (False, True), "0.94 to 0.96 holds 1/1.05, not 1/1.2"
    assert pairs.found.startswith("6 against 38, by the spread of the pairs")


@pytest.mark.parametrize(
    ("marked", "verdict", "kept"),
    [(5, "inconclusive", True), (3, "inconclusive", False), (5, "faster", False)],
)
def test_a_hog_must_be_noticed_and_change_nothing(
    tmp_path: Path, marked: int, verdict: str, kept: bool
) -> None:
    book = Known(tmp_path / "trust.json")
    told = {"speedup": SPEEDUP, "beside": 5, "else": 15, "marked_else": 1, "outcomes": 20}
    told |= {"marked_beside": marked, "quiet_only": True}
    for action in ("quiet", "mark", "rerun"):
        book.answers[f"trust-hog-again-{action}"] = {**told, "verdict": verdict}
        book.answers[f"trust-hog-slow-33-{action}"] = {**told, "verdict": "slower"}
    equal_arms, slower = hog.run(tmp_path, book)
    assert equal_arms.kept is kept
    assert slower.kept is (marked == 5)


def test_a_slowdown_is_named_by_an_option() -> None:
    assert workload.slowdown(("slow_20",)) == 0.2
    assert workload.slowdown(("again",)) == 0.0


def test_a_slowed_loop_takes_its_share_longer_but_not_for_pauses() -> None:
    now_s = [100.0]

    def step(data: object) -> str:
        now_s[0] += 2.0
        return f"logs of {data}"

    slowed = workload.Slowed(step, 0.2, lambda: now_s[0])
    for number in range(60):
        assert slowed(number) == f"logs of {number}"
        now_s[0] += 0.4  # the loop's own work
        if not number % 10:
            now_s[0] += 60.0  # a pause between two slices
    took_s = now_s[0] - 100.0 - 6 * 60.0
    plain_s = 60 * (2.0 + 0.4)
    assert took_s == pytest.approx(1.2 * plain_s, abs=2.0 + 7 * 0.2 * 0.4)


def test_a_hog_burns_while_so_many_trials_end_and_is_gone_after_the_sweep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts = iter([0, 3, 4, 5, 6])
    monkeypatch.setattr(hog, "_POLL_S", 0.01)
    monkeypatch.setattr(hog, "_count", lambda folder: next(counts, 6))
    beast = hog.Hog(SweepFolder(tmp_path, "none"), after=4, during=2)
    with beast.around():
        while not beast.burned:
            time.sleep(0.01)
    assert beast.over, "the process was killed and waited for"
    monkeypatch.setattr(hog, "_count", lambda folder: 0)
    with (never := hog.Hog(beast.folder, after=4, during=2)).around():
        pass
    assert not never.burned


def test_warm_seconds_leave_out_the_block_in_which_the_trainers_started() -> None:
    first = [(0, 100.0, 140.0), (1, 140.0, 141.5), (1, 141.0, 143.0), (2, 150.0, 151.0)]
    record = synthetic.made(3, 2, np.random.default_rng(0), noise.recorded())
    trials = [
        changed(record.trials[0], block=block, started_s=began_s, ended_s=ended_s)
        for block, began_s, ended_s in first
    ]
    answer = Answer(replace(record, trials=tuple(trials)), (), 60.0)
    assert adaptive.warm_s(answer) == pytest.approx(3.0 + 1.0)
    assert answer.trainers_s() == pytest.approx(43.0 + 1.0)


def test_pairs_that_tell_a_difference_apart() -> None:
    """By hand: ((1.960 + 1.282) · 0.09 / log 1.05)² = 35.8, and two more."""
    assert slowdown.pairs_for(0.05, 0.09) == 38
    assert slowdown.pairs_for(0.2, 0.01) == 6
