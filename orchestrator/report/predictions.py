"""Predicted costs as an object and as a document: what commands, programs and notebooks show."""

from collections.abc import Iterable, Sequence
from operator import attrgetter

from orchestrator.analysis.cost_model import Expectation
from orchestrator.core.text import joined
from orchestrator.report.document import Column, Document, Section, make_table
from orchestrator.report.formats.fragment import to_fragment
from orchestrator.report.formats.text import to_text
from orchestrator.report.wording import config_phrase

_TITLES = {"arm": "arm", "target": "cost", "value": "expected", "low": "low", "high": "high"}


class PredictedCosts(list[Expectation]):
    """What trials of one config are expected to take: an `Expectation` for each arm and cost.

    `print` and notebooks show what `rnnsweep predict` prints. `sweep` is the label of the sweep
    that was learned from.
    """

    def __init__(self, expected: Iterable[Expectation], sweep: str) -> None:
        super().__init__(expected)
        self.sweep = sweep

    def __repr__(self) -> str:
        """Return how many costs are predicted, in a line."""
        predicted = sum(expectation.value is not None for expectation in self)
        return f"<PredictedCosts by {self.sweep}: {predicted} of {len(self)}>"

    def __str__(self) -> str:
        """Return the predictions, as `rnnsweep predict` prints them."""
        return to_text(predictions_document(self, self.sweep)).rstrip()

    def _repr_html_(self) -> str:
        return to_fragment(predictions_document(self, self.sweep))


def predictions_document(expected: Sequence[Expectation], sweep: str) -> Document:
    """Return predictions of one config as a table, with the reasons where there are none."""
    columns = [
        Column(title, attrgetter(name), numeric=name not in ("arm", "target"))
        for name, title in _TITLES.items()
    ]
    predicted = [expectation for expectation in expected if expectation.value is not None]
    tables = (make_table(columns, predicted),) if predicted else ()
    section = Section("", tables=tables, paragraphs=tuple(unpredicted_reasons(expected)))
    config = expected[0].config if expected else {}
    return Document(f"Expected of {config_phrase(config)} by {sweep}", (section,))


def unpredicted_reasons(expected: Sequence[Expectation]) -> list[str]:
    """Return why there are no predictions: each reason once, with the costs and arms it is for.

    Costs that no trial has are left out. Where nothing is predicted the first reason is enough.
    """
    measured = [expectation for expectation in expected if expectation.is_measured] or expected
    places: dict[str, dict[str, list[str]]] = {}
    for expectation in measured:
        if expectation.reason is not None:
            place = f"{expectation.target} of {expectation.arm}: "  # with which a reason begins
            of_arms = places.setdefault(expectation.reason.removeprefix(place), {})
            of_arms.setdefault(str(expectation.arm), []).append(expectation.target)
    if not any(expectation.value is not None for expectation in expected):
        return [f"nothing is predicted: {next(iter(places), 'the sweep has no complete trial')}"]
    return [
        f"{reason} ({'; '.join(f'{joined(costs)} of {arm}' for arm, costs in of_arms.items())})"
        for reason, of_arms in places.items()
    ]
