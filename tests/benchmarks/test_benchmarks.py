"""The figures of benchmarks, without a measurement."""

import numpy as np
import pytest

from orchestrator.spec import parse
from tests.benchmarks.trusting import real, synthetic, workload


def test_drawn_noise_has_the_autocorrelation_of_the_recorded_one() -> None:
    logs = synthetic.recorded()
    drawn = synthetic.drawn(logs, 20_000, 0.1, np.random.default_rng(0))
    assert synthetic.adjacent_sd(drawn) == pytest.approx(0.1, rel=0.15)
    one, other = (synthetic.autocorrelation(noise, 1) for noise in (logs, drawn))
    assert other == pytest.approx(one * (1 - 1 / synthetic.STRETCH), abs=0.1)


def test_every_sweep_has_a_valid_spec_and_a_name_of_its_own() -> None:
    equal = [*real.equal_arms(2, "arms"), *real.equal_arms(2, "variants")]
    questions = [*equal, *real.slowed_arms(5, 2), *real.slowed_arms(20, 2)]
    names = {parse(question.spec(), source=question.name).name for question in questions}
    assert len(names) == len(questions)


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
