"""How a bench uses its time: how many turns each round has, and when the last round is over.

Rounds are short, so that many of them fit into the time: a verdict rests on their spread. The first
round is short by intention; the pace that it shows decides the number of turns of the next ones.
"""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from orchestrator.analysis.statistics.estimates import MIN_BLOCKS
from orchestrator.core.text import counted, duration

USUAL_S = 90.0
"""The time of a bench, unless the user gives a time or a number of rounds."""

LEAST_ROUNDS = 3
"""The time never ends a bench before it has this number of rounds."""

_AIMED_ROUNDS = 10
"""With equally many turns in all, ten rounds give a narrower interval than six."""

_USUAL_TURNS, _MOST_TURNS = 24, 96
_FEWEST_TURNS = 16
"""The turns of a round if six rounds of `_USUAL_TURNS` do not fit: six of them give a verdict."""

_TURNS_WITHOUT_TIME = 48
"""The turns of a round if only a number of rounds is given."""


@dataclass(frozen=True, slots=True)
class Budget:
    """The limits of a bench: `seconds` from the first slice on, and a number of `rounds`.

    The first limit that is reached ends the bench; None is no limit. At least one is given.
    """

    seconds: float | None = USUAL_S
    rounds: int | None = None

    def __str__(self) -> str:
        """Return `1 min 30 s after loading and compiling`, `6 rounds`, or both."""
        limits = []
        if self.seconds is not None:
            limits.append(f"{duration(self.seconds)} after loading and compiling")
        if self.rounds is not None:
            limits.append(counted(self.rounds, "round"))
        return ", at most ".join(limits)


@dataclass(frozen=True, slots=True)
class Pace:
    """The seconds that a round of warm trainers takes to load and compile, and for each turn."""

    load_s: float
    turn_s: float

    def round_s(self, turns: int) -> float:
        """Return the seconds of a round of this number of turns."""
        return self.load_s + turns * self.turn_s


@dataclass(slots=True)
class Schedule:
    """The use of a budget, round by round.

    Of each round, call `begin_round`, `note_loading` while no slice has begun, `note_turns` after
    some turns, and `end_round`.
    """

    budget: Budget
    clock: Callable[[], float] = time.monotonic
    turns: list[int] = field(default_factory=list)
    """The turns of each round that has ended."""
    load_s: float | None = None
    """The seconds of loading and compiling before the first slice; None before its end."""
    timed_s: float = 0.0
    """The seconds from the first slice to the end of the last round that has ended."""
    _pace: Pace | None = None
    _planned_turns: int = _USUAL_TURNS
    _turns_done: int = 0
    _first_slice_s: float = 0.0
    _began_s: float = 0.0
    _timing_since_s: float = 0.0

    def has_another_round(self) -> bool:
        """Return whether another round is to begin."""
        if self.budget.rounds is not None and len(self.turns) >= self.budget.rounds:
            return False
        left_s = self._time_left_s()
        if left_s is None or self._pace is None or len(self.turns) < LEAST_ROUNDS:
            return True
        return left_s >= self._pace.round_s(_FEWEST_TURNS)

    def begin_round(self) -> int:
        """Note that a round begins; return how many turns it is to have."""
        self._began_s = self._timing_since_s = self.clock()
        self._planned_turns = self._turns_that_fit()
        return self._planned_turns

    def note_loading(self) -> None:
        """Note that no slice of this round has begun."""
        self._timing_since_s = self.clock()

    def note_turns(self, done: int) -> None:
        """Note that this many turns of the round are done, at least one."""
        self._note_first_slice()
        self._turns_done = done
        turn_s = (self.clock() - self._timing_since_s) / done
        self._pace = Pace(self._timing_since_s - self._began_s, turn_s)

    def has_used_its_time(self) -> bool:
        """Return whether the next turn is to be the last one of this round, by `note_turns`.

        Each of the first six rounds may take an equal share of the time. If its turns are slow, it
        has `_FEWEST_TURNS` nevertheless, unless that takes the share of one of `LEAST_ROUNDS`.
        """
        left_s = self._time_left_s()
        if left_s is None or self._pace is None:
            return False
        taken_s = self.clock() - max(self._began_s, self._first_slice_s)
        after_two_turns_s = taken_s + 2 * self._pace.turn_s

        def exceeds_share(rounds: int) -> bool:
            return after_two_turns_s > (left_s + taken_s) / self._rounds_left(rounds)

        has_enough = self._turns_done + 1 >= _FEWEST_TURNS
        return exceeds_share(LEAST_ROUNDS) or (has_enough and exceeds_share(MIN_BLOCKS))

    def end_round(self, turns: int, importing_s: float) -> None:
        """Note the end of a round; `importing_s` of its loading are not spent in the next one."""
        self._note_first_slice()
        now_s = self.clock()
        self.turns.append(turns)
        self.timed_s = now_s - self._first_slice_s
        self._pace = Pace(
            max(0.0, self._timing_since_s - self._began_s - importing_s),
            (now_s - self._timing_since_s) / max(1, turns),
        )

    def seconds_left(self) -> float | None:
        """Return about how long the rest takes; None before the first turns."""
        if self._pace is None:
            return None
        time_left_s = self._time_left_s()
        left_s = [] if time_left_s is None else [max(0.0, time_left_s)]
        if self.budget.rounds is not None:
            rounds_left = self.budget.rounds - len(self.turns)
            left_s.append(rounds_left * self._pace.round_s(self._planned_turns))
        return min(left_s)

    def longer(self) -> str:
        """Return the option that allows the rounds of a verdict, or twice the effort."""
        rounds = len(self.turns)
        if self.budget.seconds is None or rounds == self.budget.rounds:
            return f"--rounds {max(MIN_BLOCKS, 2 * rounds)}"
        needed_s = 2 * self.budget.seconds
        if rounds < MIN_BLOCKS and self._pace is not None:
            six_rounds_s = 1.2 * MIN_BLOCKS * self._pace.round_s(_USUAL_TURNS)
            needed_s = max(self.budget.seconds, six_rounds_s)
        return f"--time {10 * math.ceil(needed_s / 10)}s"

    def __str__(self) -> str:
        """Return `9 rounds of 24 to 33 turns in 88 s, after 21 s of loading and compiling`."""
        fewest, most = min(self.turns), max(self.turns)
        turns = counted(most, "turn") if fewest == most else f"{fewest} to {most} turns"
        return (
            f"{counted(len(self.turns), 'round')} of {turns} in {duration(self.timed_s)}, after"
            f" {duration(self.load_s or 0.0)} of loading and compiling"
        )

    def _note_first_slice(self) -> None:
        if self.load_s is None:
            self.load_s = self._timing_since_s - self._began_s
            self._first_slice_s = self._timing_since_s

    def _rounds_left(self, rounds: int) -> int:
        """Return how many of this number of rounds, which the budget may limit, have not ended."""
        return max(1, min(rounds, self.budget.rounds or rounds) - len(self.turns))

    def _time_left_s(self) -> float | None:
        """Return what is left of the time: all of it before the first slice; None: no limit."""
        if self.budget.seconds is None or self.load_s is None:
            return self.budget.seconds
        return self.budget.seconds - (self.clock() - self._first_slice_s)

    def _turns_that_fit(self) -> int:
        """Return the turns that let the aimed number of rounds fit into the time, within bounds.

        If they are fewer than usual, six rounds are to fit instead.
        """
        left_s, pace = self._time_left_s(), self._pace
        if left_s is None:
            return _TURNS_WITHOUT_TIME
        if pace is None:
            return _USUAL_TURNS

        def turns_of_each(rounds: int) -> int:
            round_s = left_s / self._rounds_left(rounds)
            return int((round_s - pace.load_s) / max(1e-3, pace.turn_s))

        turns = turns_of_each(_AIMED_ROUNDS)
        if turns >= _USUAL_TURNS:
            return min(_MOST_TURNS, turns)
        return max(_FEWEST_TURNS, min(_USUAL_TURNS, turns_of_each(MIN_BLOCKS)))
