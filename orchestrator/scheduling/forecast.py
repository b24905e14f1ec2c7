"""The done part of a sweep, and the rest of it, simulated on its nodes or on any other fleet.

The scheduler is the real one. Costs of trials are drawn from the measured ones, many times over.
"""

from __future__ import annotations

import heapq
import itertools
import math
import random
import statistics
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from orchestrator.analysis import cost_model, trial_costs
from orchestrator.core.arms import Arm, HardwareUse
from orchestrator.core.errors import Refusal
from orchestrator.core.start_command import UNKNOWN_START, StartCommand
from orchestrator.core.trial import Block, Config, Outcome, Trial, canonical
from orchestrator.hardware import Node, classify
from orchestrator.planning.fleets import known_nodes, read_fleet
from orchestrator.planning.lanes import count_lanes, make_lanes
from orchestrator.planning.objectives import open_limit
from orchestrator.planning.plan import make_plan
from orchestrator.planning.pricing import price_of
from orchestrator.scheduling.config_source import ConfigSource
from orchestrator.scheduling.dispatcher import Dispatcher
from orchestrator.scheduling.lane_queue import Assignment
from orchestrator.scheduling.ledger import Ledger
from orchestrator.scheduling.remaining import RemainingWork, begun_index_count, remaining_work
from orchestrator.scheduling.runnable import expect_runnable
from orchestrator.scheduling.suggester import Suggester
from orchestrator.spec import SweepSpec
from orchestrator.storage.journal import JournalState
from orchestrator.storage.tracking.trial_content import all_settings

_UNCERTAIN = 2.0  # the time outside of trials may be longer or shorter by this factor

_LEAST, _MOST, _TRIALS = 5, 60, 10_000
"""Possible futures: as many as have so many trials together, within these bounds."""

_PART = cost_model.MIN_CONFIGS
"""The configs of a part that is run only to be measured."""

_FIRST, _FIRST_EACH = 2_000, 20  # trials that are simulated at least, in all and for each lane


@dataclass(frozen=True, slots=True)
class Amount:
    """An expected sum, and its 90 % interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Forecast:
    """The done part of a plan, the remaining part, and the prediction for that.

    `seconds` are wall-clock time, with the `overhead_s` outside of trials; None before each arm
    has run two trials. `usd` is the price of the plan's nodes for that time, idle or not, and of
    the energy of trials. Energy and money are None where an energy or a price is unknown. `idle` is
    the share of the time up to the last trial in which the nodes of a class run none, and `waits`
    that up to the last trial of the class. `model_error` is the cost model's median error on
    held-out configs, if it predicts some trials. `expected` has, on request, the prediction for
    each missing trial whose config is known already.
    """

    done: int
    remaining: int
    seconds: Amount | None = None
    overhead_s: float = 0.0
    energy_j: Amount | None = None
    usd: Amount | None = None
    idle: Mapping[str, float] = field(default_factory=dict)
    waits: Mapping[str, float] = field(default_factory=dict)
    model_error: float | None = None
    expected: tuple[cost_model.Expectation, ...] = ()


@dataclass(frozen=True, slots=True)
class FleetForecast:
    """The forecast on a fleet of that `name`, with its `nodes` by class.

    `lacking` are the arms of the present plan that cannot run there.
    """

    name: str
    nodes: Mapping[str, int]
    lacking: tuple[str, ...]
    forecast: Forecast


class Forecaster:
    """Everything that forecasts of a sweep share, whatever its nodes."""

    def __init__(self, spec: SweepSpec, state: JournalState) -> None:
        finished = list(state.finished.values())
        self._spec, self._state = spec, state
        self._settings = all_settings(state.identity, {})
        self._observations = cost_model.observe(finished, self._settings)
        configs = [*(block.config for block in state.blocks.values()), *spec.search.points]
        self._seconds, self._energy = (
            trial_costs.TrialCosts(target, self._observations, self._settings, configs)
            for target in ("trial_s", "energy_j")
        )
        self._start_s = trial_costs.trainer_starts(finished)

    def forecast(self, work: RemainingWork, *, each_config: bool = False) -> Forecast:
        """Predict the rest of a sweep on its plan's nodes; with `each_config` single trials too."""
        plan = work.running
        made = Forecast(plan.trials - work.missing, work.missing)
        if not work.missing:
            return made
        is_timed = not self._seconds.unmeasured(plan.arms)
        count = max(_LEAST, min(_MOST, _TRIALS // (work.missing + len(work.history))))
        futures = [self._future(work, number) for number in range(count if is_timed else 1)]
        overhead_s = statistics.median(future.overhead_s for future in futures)
        made = replace(made, overhead_s=overhead_s)
        if each_config:
            made = replace(made, expected=tuple(self._expected(work, futures[0])))
        if not is_timed:
            return made
        clock = _amount([future.lasts_s for future in futures])
        low_s = clock.low - overhead_s * (1 - 1 / _UNCERTAIN)
        high_s = clock.high + overhead_s * (_UNCERTAIN - 1)
        energy_j = [sum(future.joules.values()) for future in futures]
        lanes = {lane.node.id: lane for group in make_lanes(plan) for lane in group.lanes}
        nodes = [lane.node for lane in lanes.values()]
        shares = [_idle_shares(future.spans, nodes) for future in futures]
        return replace(
            made,
            seconds=Amount(clock.value, low_s, high_s),
            energy_j=None if self._energy.unmeasured(plan.arms) else _amount(energy_j),
            usd=self._cost_of(nodes, futures),
            idle={
                name: statistics.fmean(share[name].until_last_of_all for share in shares)
                for name in shares[0]
            },
            waits={
                name: statistics.fmean(share[name].until_last_of_class for share in shares)
                for name in shares[0]
            },
            model_error=self._seconds.model_error,
        )

    def fleets(
        self, texts: Iterable[str], present: Sequence[Node], start: StartCommand = UNKNOWN_START
    ) -> list[FleetForecast]:
        """Predict the rest of the sweep on each of these fleets (see `read_fleet`).

        Raise `Refusal` for one that cannot run it, or on which an arm was not measured.
        """
        samples = known_nodes(present, self._state.finished.values())
        arms_here = make_plan(self._spec, classify(present)).arms
        forecasts = []
        for text in texts:
            nodes = read_fleet(text, samples)
            plan = make_plan(self._spec, classify(nodes))
            work = remaining_work(self._spec, plan, self._state, retry_failed=False)
            expect_runnable(self._spec, work.plan)
            if work.missing and (arms := self._seconds.unmeasured(work.running.arms)):
                raise Refusal(
                    f"--nodes {text}: expected {trial_costs.MEASURED} complete trials of each arm"
                    f" in sweep {self._spec.name!r}, as times are drawn from them; received fewer"
                    f" of {'; '.join(map(str, arms))}. {self._run_a_part(start)}, there or with"
                    " --address"
                )
            lacking = tuple(str(arm) for arm in arms_here if arm not in plan.arms)
            counts = dict(Counter(node.main_class.name for node in nodes))
            forecasts.append(FleetForecast(text, counts, lacking, self.forecast(work)))
        return forecasts

    def _run_a_part(self, start: StartCommand) -> str:
        """Write how a part of the sweep is run, which depends on what decides the configs."""
        search = self._spec.search
        if isinstance(search.configs, int) and not search.is_grid and search.configs > _PART:
            part = start.with_value("search.configs", _PART)
            return f"Run a part of the sweep on such a node first: {part}"
        return f"Run the sweep on such a node first, and stop it after some trials: {start}"

    def _future(self, work: RemainingWork, number: int) -> _Future:
        """Simulate one possible future; of a very long one its first part, at the same pace."""
        spec, groups, begun = self._spec, make_lanes(work.plan), begun_index_count(work.history)
        share = min(1.0, max(_FIRST, _FIRST_EACH * count_lanes(groups)) / work.missing)
        to_come = math.ceil(share * (work.plan.index_count - begun))
        plan = work.plan if share == 1.0 else work.plan.with_index_count(begun + to_come)
        source: ConfigSource = EarlierConfigs(self._state.blocks.values(), number)
        if plan.listed:
            source = Suggester(spec.search, spec.seed)
        dispatcher = Dispatcher.begin(
            Ledger(self._state.identity, plan, work.failures.replay()),
            source,
            spec.search.objectives,
            groups,
            open_limit=open_limit(spec, plan, groups),
            baseline=spec.baseline,
        )
        dispatcher.restore(work.history)
        drawn = _DrawnCosts(
            self._seconds.draw(number),
            self._energy.draw(number),
            self._start_s,
            keeps_trainers=plan.fresh_trainer_reason is None,
        )
        spans = simulate(dispatcher, drawn.run, trial_costs.PAUSE_S)
        scale = work.missing / sum(len(span.assignment.trials) for span in spans)
        around_s = trial_costs.START_S + trial_costs.REPORT_S
        return _Future(
            spans,
            {arm: scale * sum_j for arm, sum_j in drawn.joules.items()},
            around_s + scale * max(drawn.between_s.values()),
            around_s + scale * max(span.ended_s for span in spans),
        )

    def _expected(self, work: RemainingWork, future: _Future) -> list[cost_model.Expectation]:
        """Return the expected costs of the trials to come whose configs are known."""
        begun = {event.index for event in work.history if isinstance(event, Block)}
        asked = {
            (canonical(trial.config), trial.arm): (trial.config, trial.arm)
            for trial in itertools.chain(*(span.assignment.trials for span in future.spans))
            if work.plan.listed or trial.block in begun
        }
        return cost_model.expect(self._observations, list(asked.values()), self._settings)

    def _cost_of(self, nodes: Sequence[Node], futures: Sequence[_Future]) -> Amount | None:
        """Return the cost of nodes and energy; None if a price, or priced energy, is not known."""
        table, arms = self._spec.prices, futures[0].joules
        prices = {n.main_class: price_of(HardwareUse(n.main_class), table) for n in nodes}
        by_kwh = {arm: p.usd_per_kwh for arm in arms if (p := price_of(arm.hardware, table))}
        metered = {arm: usd for arm, usd in by_kwh.items() if usd}
        if not all(prices.values()) or self._energy.unmeasured(metered):
            return None
        priced = [(node.gpus, price) for node in nodes if (price := prices[node.main_class])]
        hourly = sum((p.usd_per_hour or 0.0) * max(1, gpus) / p.gpus for gpus, p in priced)
        joules = [
            sum(future.joules[arm] * usd for arm, usd in metered.items()) for future in futures
        ]
        rents = [hourly * future.lasts_s / 3600 for future in futures]
        return _amount([rent + j / 3.6e6 for rent, j in zip(rents, joules, strict=True)])


@dataclass(slots=True)
class _DrawnCosts:
    """Runs the trials of a possible future by drawing their costs, and adds those up.

    `joules` are the energy of each arm, `between_s` the time outside of trials by node. With
    `keeps_trainers` each trainer starts once, outside of its trials.
    """

    seconds_of: Callable[[Trial], float]
    joules_of: Callable[[Trial], float]
    trainer_start_s: Callable[[Arm], float]
    keeps_trainers: bool
    joules: defaultdict[Arm, float] = field(default_factory=lambda: defaultdict(float))
    between_s: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    _trainers: Counter[object] = field(default_factory=Counter)

    def run(self, assignment: Assignment) -> tuple[float, list[Outcome]]:
        """Return the seconds that an assignment takes, and the outcomes of its trials."""
        lane, room = assignment.lane, assignment.lane.room(assignment.device)
        start_s = 0.0
        for trial in assignment.trials:
            trainer = lane.node.id, trial_costs.process_of(trial.arm)
            if self.keeps_trainers and self._trainers[trainer] < room:
                self._trainers[trainer] += 1
                start_s += self.trainer_start_s(trial.arm)
            self.joules[trial.arm] += self.joules_of(trial)
        self.between_s[lane.node.id] += (start_s + trial_costs.PAUSE_S) / room
        taken_s = start_s + math.fsum(map(self.seconds_of, assignment.trials))
        return taken_s, [Outcome("complete", 0.0, taken_s) for _ in assignment.trials]


@dataclass(frozen=True, slots=True)
class _Future:
    """One possible future: what ran, the energy by arm, the time outside of trials, all of it."""

    spans: Sequence[Span]
    joules: Mapping[Arm, float]
    overhead_s: float
    lasts_s: float


class EarlierConfigs:
    """A source that gives blocks to come the configs of earlier blocks, as nobody knows theirs."""

    def __init__(self, blocks: Iterable[Block], number: int) -> None:
        """Draw from these blocks; possible futures of another `number` draw other configs."""
        self._configs: list[Config] = [block.config for block in blocks] or [{}]
        self._number = number

    def suggest(self, index: int) -> Config:
        """Return an earlier config: the same for a block on any fleet."""
        return random.Random(f"{self._number} {index}").choice(self._configs)

    def replay(self, index: int, config: Config) -> None:
        """Take nothing: no sampler learns here."""

    def should_prune(self, index: int, step: int, value: float) -> bool:
        """Return False: blocks to come run to their ends."""
        return False

    def report(
        self, index: int, values: Sequence[float] | None, *, is_pruned: bool = False
    ) -> None:
        """Take nothing."""


@dataclass(frozen=True, slots=True)
class Span:
    """The time that an assignment has its lane, in seconds after the first one begins."""

    assignment: Assignment
    began_s: float
    ended_s: float


def simulate(
    dispatcher: Dispatcher,
    run: Callable[[Assignment], tuple[float, Sequence[Outcome]]],
    pause_s: float = 0.0,
) -> list[Span]:
    """Run all trials of a dispatcher on their lanes; return what ran, in the order of the starts.

    A trial begins `pause_s` after its lane has room. `run` gives the seconds that an assignment
    takes, and the outcomes of its trials.
    """
    waiting = defaultdict[str, deque[Assignment]](deque)
    at_work = Counter[str]()
    ends: list[tuple[float, int, Assignment, Sequence[Outcome]]] = []
    spans, order, now_s = list[Span](), itertools.count(), 0.0
    changed = set[str]()
    while not dispatcher.done:
        while (handed_out := dispatcher.next()) is not None:
            assignment = handed_out[0]
            waiting[assignment.lane.node.id].append(assignment)
            changed.add(assignment.lane.node.id)
        for id_ in sorted(changed):
            queue = waiting[id_]
            while queue and at_work[id_] < queue[0].lane.room(queue[0].device):
                assignment = queue.popleft()
                at_work[id_] += 1
                began_s = now_s + pause_s
                seconds, outcomes = run(assignment)
                spans.append(Span(assignment, began_s, began_s + seconds))
                heapq.heappush(ends, (began_s + seconds, next(order), assignment, outcomes))
        now_s, _, assignment, outcomes = heapq.heappop(ends)
        changed = {assignment.lane.node.id}
        at_work[assignment.lane.node.id] -= 1
        dispatcher.finish(assignment, *outcomes)
    return spans


@dataclass(frozen=True, slots=True)
class _IdleShares:
    """The shares of time in which the nodes of a class run no trial, up to some last trial."""

    until_last_of_all: float
    until_last_of_class: float


def _idle_shares(spans: Iterable[Span], nodes: Iterable[Node]) -> dict[str, _IdleShares]:
    """Return in which shares of time the nodes of each class run no trial."""
    work_s, last_s = defaultdict[str, float](float), defaultdict[str, float](float)
    for span in spans:
        lane = span.assignment.lane
        name = lane.node.main_class.name
        work_s[name] += (span.ended_s - span.began_s) / lane.room(span.assignment.device)
        last_s[name] = max(last_s[name], span.ended_s)
    most_s, shares = max(last_s.values()), dict[str, _IdleShares]()
    for name, count in Counter(node.main_class.name for node in nodes).items():
        mean_s = work_s[name] / count
        shares[name] = _IdleShares(
            until_last_of_all=1 - mean_s / most_s,
            until_last_of_class=1 - mean_s / (last_s[name] or math.inf),
        )
    return shares


def _amount(values: Sequence[float]) -> Amount:
    """Return the median of simulated values, with their 5 % and 95 % quantiles as its range."""
    low, value, high = np.quantile(values, (0.05, 0.5, 0.95)).tolist()
    return Amount(value, low, high)
