"""The machinery of `tests.benchmarks.trust`, without a real training."""

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


def test_limits_of_counts_by_chance() -> None:
    assert fewest_by_chance(30, 0.95) == 25
    assert fewest_by_chance(400, 0.95) == 369
    assert most_by_chance(400, 0.05) == 31


def test_drawn_noise_has_the_autocorrelation_of_the_recorded_one() -> None:
    logs = noise.recorded()
    assert len(logs) >= 300
    assert abs(logs.mean()) < 1e-9
    drawn = noise.drawn(logs, 20_000, 0.1, np.random.default_rng(0))
    assert noise.adjacent_sd([float(value) for value in drawn]) == pytest.approx(0.1, rel=0.15)
    assert noise.autocorrelation(drawn, 1) == pytest.approx(
        noise.autocorrelation(logs, 1) * (1 - 1 / noise.STRETCH), abs=0.1
    )


def every_question() -> Iterator[Question]:
    yield from equal.questions(2)
    for percent in slowdown.SWEEPS:
        yield from slowdown.questions(percent, 2)


def test_every_sweep_has_a_valid_spec() -> None:
    names = []
    for question in every_question():
        spec = parse(question.spec(), source=question.name)
        assert spec.name == question.name
        names.append(spec.name)
    assert len(set(names)) == len(names)


def test_an_interrupted_run_is_resumed_unless_it_is_fresh(tmp_path: Path) -> None:
    path = tmp_path / "results" / "trust.json"
    first = Notebook.open(path, fresh=False)
    assert first.once("trust-equal-00", "arms: two", lambda: {"verdict": "same"})["asked"]
    kept = Finding("equal", "that", "so", True, ("a detail",))
    first.conclude("equal", [kept], 12.34)
    resumed = Notebook.open(path, fresh=False)
    assert (resumed.begun, resumed.answers) == (first.begun, first.answers)
    assert resumed.all() == [kept]
    assert resumed.seconds == {"equal": 12.3}
    assert Notebook.open(path, fresh=True).answers == {}
    assert json.loads(path.read_text())["findings"]["equal"][0]["kept"] is True


def test_a_sweep_is_run_again_only_if_its_spec_has_changed(
    tmp_path: Path,
) -> None:
    book = Notebook.open(tmp_path / "trust.json", fresh=True)
    answers = iter([{"verdict": "same"}, {"verdict": "slower"}])
    for asked, verdict in (("blocks: 6", "same"), ("blocks: 6", "same"), ("blocks: 7", "slower")):
        assert book.once("one", asked, lambda: next(answers))["verdict"] == verdict


class FilledNotebook(Notebook):
    """A notebook with all answers, so that no sweep is run."""

    def once(self, name: str, asked: str, find: Callable[[], Mapping[str, Any]]) -> Any:
        return self.answers[name]


def test_too_many_missed_intervals_break_the_promise(tmp_path: Path) -> None:
    book = FilledNotebook(tmp_path / "trust.json")
    speedup = {"n": 6, "value": 1.0, "low": 0.99, "high": 1.01}
    for number in range(30):
        covers = number >= 6
        answer = {"verdict": "same" if covers else "faster", "speedup": speedup, "covers": covers}
        book.answers[f"trust-equal-{number:02}"] = {**answer, "disturbed": 0, "seconds": 20.0}
    (finding,) = equal.run(tmp_path, book)
    assert not finding.kept
    assert finding.result == "24 cover it; 6 verdicts of a difference"


SPEEDUP = {"n": 6, "value": 0.95, "low": 0.94, "high": 0.96}


@pytest.mark.parametrize(("missed", "kept"), [(0, True), (1, True), (2, False)])
def test_one_slowdown_of_five_percent_in_ten_may_be_missed(
    tmp_path: Path, missed: int, kept: bool
) -> None:
    book = FilledNotebook(tmp_path / "trust.json")
    answer = {"speedup": SPEEDUP, "pairs": 6, "slices": 200, "trainers_s": 12.0, "pair_sd": 0.02}
    names = [f"trust-slow-20-{number:02}" for number in range(5)]
    names += [f"trust-slow-5-{number:02}" for number in range(10)]
    for index, name in enumerate(reversed(names)):
        book.answers[name] = {**answer, "verdict": "inconclusive" if index < missed else "slower"}
    book.answers["trust-slow-whole"] = {**answer, "verdict": "inconclusive", "pair_sd": 0.09}
    twenty, missing, five, holding, pairs = slowdown.run(tmp_path, book)
    assert (twenty.kept, five.kept) == (True, kept)
    assert (missing.kept, holding.kept) == (False, True), "0.94 to 0.96 holds 1/1.05, not 1/1.2"
    assert pairs.result.startswith("6 against 38, by the spread of the pairs")


@pytest.mark.parametrize(
    ("marked", "verdict", "kept"),
    [(5, "inconclusive", True), (3, "inconclusive", False), (5, "faster", False)],
)
def test_a_hog_must_be_detected_without_effect_on_the_verdict(
    tmp_path: Path, marked: int, verdict: str, kept: bool
) -> None:
    book = FilledNotebook(tmp_path / "trust.json")
    answer = {"speedup": SPEEDUP, "beside": 5, "else": 15, "marked_else": 1, "outcomes": 20}
    answer |= {"marked_beside": marked, "quiet_only": True}
    for action in ("quiet", "mark", "rerun"):
        book.answers[f"trust-hog-again-{action}"] = {**answer, "verdict": verdict}
        book.answers[f"trust-hog-slow-33-{action}"] = {**answer, "verdict": "slower"}
    equal_arms, slower = hog.run(tmp_path, book)
    assert equal_arms.kept is kept
    assert slower.kept is (marked == 5)


def test_an_option_gives_the_slowdown() -> None:
    assert workload.slowdown(("slow_20",)) == 0.2
    assert workload.slowdown(("again",)) == 0.0


def test_a_slowed_loop_is_longer_by_its_share_except_for_pauses() -> None:
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


def test_a_hog_runs_during_a_number_of_trials_and_ends_with_the_sweep(
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


def test_warm_seconds_exclude_the_first_block() -> None:
    first = [(0, 100.0, 140.0), (1, 140.0, 141.5), (1, 141.0, 143.0), (2, 150.0, 151.0)]
    record = synthetic.made(3, 2, np.random.default_rng(0), noise.recorded())
    trials = [
        changed(record.trials[0], block=block, started_s=began_s, ended_s=ended_s)
        for block, began_s, ended_s in first
    ]
    answer = Answer(replace(record, trials=tuple(trials)), (), 60.0)
    assert adaptive.warm_s(answer) == pytest.approx(3.0 + 1.0)
    assert answer.trainers_s() == pytest.approx(43.0 + 1.0)


def test_number_of_pairs_that_detect_a_difference() -> None:
    """By hand: ((1.960 + 1.282) · 0.09 / log 1.05)² = 35.8, and two more."""
    assert slowdown.pairs_for(0.05, 0.09) == 38
    assert slowdown.pairs_for(0.2, 0.01) == 6
