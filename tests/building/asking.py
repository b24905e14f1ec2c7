"""The contrasts of a record, as the tests ask for them."""

from orchestrator.analysis.contrasts.contrast import Contrast, Question
from orchestrator.analysis.contrasts.matrix import Matrix
from orchestrator.analysis.pairing.baselines import baseline_of_spec
from orchestrator.analysis.summary import compare, summarise
from orchestrator.core.records import SweepRecord


def matrix_of(record: SweepRecord, metric: str = "step_ms") -> Matrix:
    return compare(record, baseline_of_spec(record)).matrix(metric)


def asked(
    record: SweepRecord, metric: str = "step_ms", question: Question = Question.BASELINE
) -> list[Contrast]:
    return [
        contrast
        for contrast in summarise(record).contrasts
        if (contrast.metric, contrast.question) == (metric, question)
    ]


def only(
    record: SweepRecord, metric: str = "step_ms", question: Question = Question.BASELINE
) -> Contrast:
    (contrast,) = asked(record, metric, question)
    return contrast
