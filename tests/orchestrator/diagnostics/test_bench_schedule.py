"""How a bench uses its time, by a clock that the tests set."""

from dataclasses import dataclass, field

import pytest

from orchestrator.diagnostics.bench_schedule import Budget, Schedule


@dataclass(slots=True)
class Machine:
    """A machine on which loading and each turn take known times; it runs rounds of a schedule."""

    budget: Budget
    load_s: float
    turn_s: float
    import_s: float = 0.0
    now_s: float = 100.0
    schedule: Schedule = field(init=False)

    def __post_init__(self) -> None:
        self.schedule = Schedule(self.budget, clock=lambda: self.now_s)

    def run_round(self) -> None:
        """Run a round as a bench does."""
        import_s = 0.0 if self.schedule.turns else self.import_s
        planned = self.schedule.begin_round()
        self.schedule.note_loading()
        self.now_s += self.load_s + import_s
        self.schedule.note_loading()
        done = 0
        while done < planned:
            is_last = self.schedule.has_used_its_time() if done else False
            self.now_s += self.turn_s
            done += 1
            if is_last:
                break
            self.schedule.note_turns(done)
        self.schedule.end_round(done, import_s)

    def run(self) -> list[int]:
        """Run all rounds; return the turns of each."""
        while self.schedule.has_another_round():
            self.run_round()
        return self.schedule.turns


@pytest.mark.parametrize(
    ("load_s", "turn_s", "import_s", "turns"),
    [
        pytest.param(3.0, 0.2, 12.0, [24] + [32] * 6 + [33] * 3, id="ten rounds fill the time"),
        pytest.param(5.5, 0.25, 12.0, [24] * 8, id="as many rounds of the usual turns as fit"),
        pytest.param(4.0, 0.65, 12.0, [23, 16] + [17] * 4, id="six rounds of fewer turns"),
        pytest.param(1.0, 0.025, 12.0, [24] + [96] * 26, id="more rounds rather than more turns"),
        pytest.param(20.0, 1.25, 0.0, [16, 12, 12], id="three rounds on a slow machine, each cut"),
        pytest.param(50.0, 60.0, 0.0, [2, 2, 2], id="never less than two turns"),
    ],
)
def test_rounds_and_turns_follow_from_the_pace_of_the_first_round(
    load_s: float, turn_s: float, import_s: float, turns: list[int]
) -> None:
    machine = Machine(Budget(), load_s, turn_s, import_s)
    assert machine.run() == turns
    assert machine.schedule.load_s == load_s + import_s
    timed_s = machine.now_s - 100.0 - load_s - import_s
    assert machine.schedule.timed_s == pytest.approx(timed_s)


@pytest.mark.parametrize(
    ("budget", "turns"),
    [
        (Budget(None, 2), [48, 48]),
        (Budget(60.0, 2), [24, 96]),
        (Budget(20.0, 9), [16, 16, 16, 16, 16]),
        (Budget(0.0, 2), [2, 2]),
    ],
)
def test_the_first_limit_that_is_reached_ends_a_bench(budget: Budget, turns: list[int]) -> None:
    assert Machine(budget, 0.0, 0.25).run() == turns


def test_the_rest_is_estimated_from_the_first_turns_on() -> None:
    for budget, left_s in ((Budget(90.0), 86.0), (Budget(None, 6), 6 * (10 + 48 * 2.0))):
        machine = Machine(budget, 10.0, 2.0)
        schedule = machine.schedule
        schedule.begin_round()
        machine.now_s += 10.0
        schedule.note_loading()
        assert schedule.seconds_left() is None
        machine.now_s += 4.0
        schedule.note_turns(2)
        assert schedule.seconds_left() == left_s


@pytest.mark.parametrize(
    ("budget", "option"),
    [
        (Budget(), "--time 180s"),
        (Budget(30.0), "--time 80s"),
        (Budget(None, 4), "--rounds 8"),
        (Budget(None, 2), "--rounds 6"),
    ],
)
def test_a_longer_bench_allows_a_verdict_or_is_twice_as_long(budget: Budget, option: str) -> None:
    machine = Machine(budget, 4.0, 0.25)
    machine.run()
    assert machine.schedule.longer() == option
