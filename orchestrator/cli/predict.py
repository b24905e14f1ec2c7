"""`rnnsweep predict`: what a config that was not measured is expected to take."""

# ruff: noqa: PLC0415

from __future__ import annotations

import dataclasses

import click

from orchestrator import api
from orchestrator.cli import options
from orchestrator.cli.command import command
from orchestrator.cli.exit_codes import COMPLETE, REFUSED
from orchestrator.cli.output import write
from orchestrator.core.errors import Refusal

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
    from orchestrator.report.predictions import predictions_document, unpredicted_reasons
    from orchestrator.spec import yaml_locations

    config = yaml_locations.parse_yaml(
        "{}", source="--set", overrides=overrides, example="units=96"
    ).data
    expected = api.predict(sweep, config, arm, generation=generation)
    is_predicted = any(prediction.value is not None for prediction in expected)
    if form == "json":
        write(
            [
                {**dataclasses.asdict(prediction), "arm": str(prediction.arm)}
                for prediction in expected
            ]
        )
    elif not is_predicted:
        raise Refusal(unpredicted_reasons(expected)[0])
    else:
        write(predictions_document(expected, sweep))
    return COMPLETE if is_predicted else REFUSED
