"""Which arms lead a running sweep: by time, by its results, and by its other objectives."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from orchestrator.analysis.contrasts.answers import Answers, answer
from orchestrator.analysis.contrasts.questions import Leader
from orchestrator.analysis.pairing.baselines import baseline_of_spec
from orchestrator.analysis.summary import compare
from orchestrator.core.arms import Arm
from orchestrator.core.records import SweepRecord
from orchestrator.report.document import Fact
from orchestrator.report.leading import in_order_of_interest, leading_fact
from orchestrator.report.names import result_name
from workloads.metrics import find_metric

_MOST_CLASSES = 3
"""The most hardware classes of which the fastest arm is shown; the report has all."""


def leading_facts(record: SweepRecord, arm_name: Callable[[Arm], str]) -> tuple[Fact, ...]:
    """Return which arm leads by time, by each result, and by each other objective, as a report."""
    baseline = baseline_of_spec(record)
    leads = _Leads(
        answer(compare(record, baseline)),
        {str(arm): arm_name(arm) for arm in record.arms},
        {str(arm): arm.short_name for arm in record.arms},
        {str(arm): str(base) for arm, base in baseline.of.items()} if baseline else {},
    )
    time_metric, results = leads.answers.time_metric, leads.answers.results
    others = [name for name in record.objectives if name not in (time_metric, *results)]
    by_time = [*leads.by_time(), *leads.by({name: _label(name) for name in others})]
    by_result = [*leads.by({name: result_name(name) for name in results})]
    return in_order_of_interest(by_time, by_result, record.objectives, results)


def _label(metric: str) -> str:
    return find_metric(metric).label or metric


@dataclass(frozen=True, slots=True)
class _Leads:
    """The answers so far. Arms have names, short ones within a hardware class, and baselines."""

    answers: Answers
    names: Mapping[str, str]
    short_names: Mapping[str, str]
    baselines: Mapping[str, str]

    def by_time(self) -> Iterator[Fact]:
        """Yield which arm is the fastest of all, and then on each of several hardware classes."""
        metric = self.answers.time_metric
        if metric is None:
            return
        yield from self.by({metric: "fastest"})
        leaders = self._leaders(metric)
        if len(leaders) > 1:
            for leader in [each for each in leaders if each.hardware][:_MOST_CLASSES]:
                fact = self._fact("fastest", leader, self.short_names)
                yield replace(fact, text=f"on {leader.hardware}: {fact.text}")

    def by(self, labels: Mapping[str, str]) -> Iterator[Fact]:
        """Yield which arm is the best of all by each of these metrics, under its label."""
        for metric, label in labels.items():
            leaders = self._leaders(metric)
            if leaders and (len(leaders) == 1 or not leaders[-1].hardware):  # all comes last
                yield self._fact(label, leaders[-1], self.names)

    def _leaders(self, metric: str) -> list[Leader]:
        return [leader for leader in self.answers.leaders if leader.metric == metric]

    def _fact(self, label: str, leader: Leader, names: Mapping[str, str]) -> Fact:
        baseline = self.baselines.get(leader.arm, "")
        return leading_fact(label, leader.comparisons(self.answers.contrasts), names, baseline)
