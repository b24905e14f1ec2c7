"""`rnnsweep predict`: what a config that was not measured is expected to take."""

# ruff: noqa: PLC0415

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from operator import attrgetter
from typing import TYPE_CHECKING

import click

from orchestrator import api
from orchestrator.cli import options
from orchestrator.cli.command import command
from orchestrator.cli.exit_codes import COMPLETE, REFUSED
from orchestrator.cli.output import write
from orchestrator.core.errors import Refusal

if TYPE_CHECKING:
    from orchestrator.analysis.cost_model import Expectation

_NOTES = """
90 % of such trials are expected in the intervals. Nothing is predicted outside of the measured
ranges: exit code 2 if there is nothing else.
"""


@command(
    examples=["rnnsweep predict quickstart --set units=96 --set layers=1 --set batch_size=32"],
    notes=_NOTES,
)
@options.sweep_argument("sweep")
@options.set_option(
    "The value of a parameter that the sweep varied, such as units=96; repeat for all."
)
@click.option(
    "--arm",
    default="*",
    metavar="ARM",
    help="Predict for this implementation or arm only.",
)
@options.generation_option
@options.json_option
def predict(
    sweep: str, overrides: tuple[str, ...], arm: str, generation: int | None, form: str | None
) -> int:
    """Predict time, memory and energy of a config not yet measured."""
    from orchestrator.report.document import Column, Document, Section, make_table
    from orchestrator.report.wording import config_phrase
    from orchestrator.spec import yaml_locations

    config = yaml_locations.parse_yaml(
        "{}", source="--set", overrides=overrides, example="units=96"
    ).data
    expected = api.predict(sweep, config, arm, generation=generation)
    predicted = [prediction for prediction in expected if prediction.value is not None]
    if form == "json":
        write(
            [
                {**dataclasses.asdict(prediction), "arm": str(prediction.arm)}
                for prediction in expected
            ]
        )
    elif not predicted:
        raise Refusal(_reasons(expected)[0])
    else:
        titles = {"arm": "arm", "target": "cost", "value": "expected", "low": "low", "high": "high"}
        columns = [
            Column(title, attrgetter(name), numeric=title not in ("arm", "cost"))
            for name, title in titles.items()
        ]
        table = make_table(columns, predicted)
        section = Section("", tables=(table,), paragraphs=tuple(_reasons(expected)))
        title = f"Expected of {config_phrase(config)} by {sweep}"
        write(Document(title, (section,)))
    return COMPLETE if predicted else REFUSED


def _reasons(expected: Sequence[Expectation]) -> list[str]:
    """Return why there are no predictions: each reason once, with the costs and arms it is for.

    Costs that no trial has are left out. Where nothing is predicted the first reason is enough.
    """
    from orchestrator.analysis.statistics.formatting import joined

    measured = [prediction for prediction in expected if prediction.is_measured] or expected
    places: dict[str, dict[str, list[str]]] = {}
    for prediction in measured:
        if prediction.reason is not None:
            place = f"{prediction.target} of {prediction.arm}: "  # with which a reason begins
            of_arms = places.setdefault(prediction.reason.removeprefix(place), {})
            of_arms.setdefault(str(prediction.arm), []).append(prediction.target)
    if not any(prediction.value is not None for prediction in expected):
        return [f"nothing is predicted: {next(iter(places), 'the sweep has no complete trial')}"]
    return [
        f"{reason} ({'; '.join(f'{joined(costs)} of {arm}' for arm, costs in of_arms.items())})"
        for reason, of_arms in places.items()
    ]
