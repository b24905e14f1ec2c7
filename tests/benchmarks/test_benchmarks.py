"""The figures of benchmarks, without a measurement."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest

from orchestrator.spec import parse
from orchestrator.storage.home import SweepFolder
from tests.benchmarks.trusting import real, synthetic, workload
from tests.benchmarks.trusting.findings import Notebook


def test_drawn_noise_has_the_autocorrelation_of_the_recorded_one() -> None:
    logs = synthetic.recorded()
    drawn = synthetic.drawn(logs, 20_000, 0.1, np.random.default_rng(0))
    assert synthetic.adjacent_sd(drawn) == pytest.approx(0.1, rel=0.15)
    assert synthetic.autocorrelation(drawn, 1) == pytest.approx(
        synthetic.autocorrelation(logs, 1) * (1 - 1 / synthetic.STRETCH), abs=0.1
    )


def test_every_sweep_has_a_valid_spec_and_a_name_of_its_own() -> None:
    questions = [*real.equal_arms(2), *real.equal_arms(2, ("one", "other"))]
    questions += [*real.slowed_arms(5, 2), *real.slowed_arms(20, 2)]
    names = {parse(question.spec(), source=question.name).name for question in questions}
    assert len(names) == len(questions)


def test_a_sweep_is_run_again_only_if_its_spec_has_changed(tmp_path: Path) -> None:
    answers = iter([{"verdict": "same"}, {"verdict": "slower"}])
    for asked, verdict in (("blocks: 6", "same"), ("blocks: 6", "same"), ("blocks: 7", "slower")):
        book = Notebook.open(tmp_path / "trust.json", fresh=False)
        assert book.once("one", asked, lambda: next(answers))["verdict"] == verdict


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
    assert took_s == pytest.approx(1.2 * 60 * (2.0 + 0.4), abs=2.0 + 7 * 0.2 * 0.4)


def test_a_hog_ends_with_the_sweep(tmp_path: Path) -> None:
    with real.hogged(SweepFolder(tmp_path, "none"), after=4, during=2) as begun:
        assert not begun.wait(0.5)
    assert "hog" not in {thread.name for thread in threading.enumerate()}
