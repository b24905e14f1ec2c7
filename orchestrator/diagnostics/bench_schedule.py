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

_LEAST_TURNS, _MOST_TURNS = 8, 24
_TURNS_WITHOUT_TIME = 12
"""The turns of a round if only a number of rounds is given."""


@dataclass(frozen=True, slots=True)
class Budget:
    """The limits of a bench: `seconds` from the first slice on, and a number of `rounds`.

    The first limit that is reached ends the bench; None is no limit. At least one is given.
    """

    seconds: float | None = USUAL_S
    rounds: int | None = None

    def __str__(self) -> str:
        """Return `1 min 30 s from the first slice on`, `6 rounds`, or both."""
        limits = []
        if self.seconds is not None:
            limits.append(f"{duration(self.seconds)} from the first slice on")
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
    _planned_turns: int = _LEAST_TURNS
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
        return left_s >= self._pace.round_s(_LEAST_TURNS)

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
        turn_s = (self.clock() - self._timing_since_s) / done
        self._pace = Pace(self._timing_since_s - self._began_s, turn_s)

    def has_used_its_time(self) -> bool:
        """Return whether the next turn is to be the last one of this round, by `note_turns`.

        Each of the first `LEAST_ROUNDS` rounds may take an equal share of the time.
        """
        left_s = self._time_left_s()
        if left_s is None or self._pace is None:
            return False
        taken_s = self.clock() - max(self._began_s, self._first_slice_s)
        share_s = (left_s + taken_s) / max(1, LEAST_ROUNDS - len(self.turns))
        return taken_s + 2 * self._pace.turn_s > share_s

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
            six_rounds_s = 1.2 * MIN_BLOCKS * self._pace.round_s(_LEAST_TURNS)
            needed_s = max(self.budget.seconds, six_rounds_s)
        return f"--time {10 * math.ceil(needed_s / 10)}s"

    def __str__(self) -> str:
        """Return `9 rounds of 8 to 11 turns in 1 min 28 s, after 21 s of loading and compiling`."""
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

    def _time_left_s(self) -> float | None:
        """Return what is left of the time: all of it before the first slice; None: no limit."""
        if self.budget.seconds is None or self.load_s is None:
            return self.budget.seconds
        return self.budget.seconds - (self.clock() - self._first_slice_s)

    def _turns_that_fit(self) -> int:
        """Return the turns that let the aimed number of rounds fit into the time, within bounds."""
        left_s = self._time_left_s()
        if left_s is None:
            return _TURNS_WITHOUT_TIME
        if self._pace is None:
            return _LEAST_TURNS
        aimed = min(_AIMED_ROUNDS, self.budget.rounds or _AIMED_ROUNDS)
        round_s = left_s / max(1, aimed - len(self.turns))
        turns = int((round_s - self._pace.load_s) / max(1e-3, self._pace.turn_s))
        return max(_LEAST_TURNS, min(_MOST_TURNS, turns))
