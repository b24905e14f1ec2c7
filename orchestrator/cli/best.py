"""Commands on single configs: the `best` one as a spec, and what one is to cost (`predict`)."""

# ruff: noqa: PLC0415

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from orchestrator import api
from orchestrator.cli.exit_codes import COMPLETE, WITH_FAILURES, with_exit_code
from orchestrator.cli.options import Command, format_option, setting_option
from orchestrator.cli.output import put, show, wants_colour, width
from orchestrator.cli.reports import generation_option, output_options, usual_form

if TYPE_CHECKING:
    from orchestrator.report.chosen import Limit

_FORMATS = {"text": ".txt", "json": ".json", "yaml": ".yaml"}


def _limit_option(name: str, sign: str, text: str) -> Callable[[Command], Command]:
    """Return an option that takes limits of metrics: `METRIC=NUMBER`."""

    def limits(_: Any, option: click.Parameter, texts: tuple[str, ...]) -> list[Limit]:
        try:
            return [(metric, sign, float(end)) for metric, end in (t.split("=") for t in texts)]
        except ValueError:
            example = f"expected METRIC=NUMBER, such as val_accuracy=0.85; received {texts[-1]}"
            raise click.BadParameter(example, param=option) from None

    return click.option(name, metavar="METRIC=NUMBER", multiple=True, callback=limits, help=text)


@click.command()
@click.argument("sweep")
@click.option("--metric", help="Choose by this; by default by the first objective without a limit.")
@_limit_option("--min", "≥", "Require at least this mean of a metric; may be repeated.")
@_limit_option("--max", "≤", "Require at most this mean of a metric; may be repeated.")
@click.option("--arm", default="*", help="Choose on this implementation or arm only.")
@generation_option
@output_options(_FORMATS)
@with_exit_code
def best(sweep: str, generation: int | None, form: Any, output: Path | None, **asked: Any) -> None:
    """Print the best config of a SWEEP on its arm; as YAML it is a spec that `run` takes.

    \b
    rnnsweep best quickstart --min val_accuracy=0.85 --metric step_ms -o best.yaml
    rnnsweep run best.yaml
    """
    from orchestrator.report import chosen
    from orchestrator.report.formats.json_format import plain
    from orchestrator.report.formats.text import to_text

    form = form or usual_form(output, _FORMATS)
    limits = (*asked["min"], *asked["max"])
    record = api.read_sweep(sweep, generation=generation)
    choice = chosen.choose(record, asked["metric"], limits, asked["arm"])
    text = chosen.to_yaml(choice)
    if form == "json":
        text = json.dumps(plain(choice), indent=2, allow_nan=False) + "\n"
    elif form == "text":
        colour = output is None and wants_colour()
        text = to_text(chosen.to_document(choice), width(), colour=colour)
    put(text.encode(errors="replace"), output)


@click.command()
@click.argument("sweep")
@setting_option("The value of a parameter that the sweep varied, such as units=96; repeat for all.")
@click.option(
    "--arm", default="*", metavar="ARM", help="Predict for this implementation or arm only."
)
@generation_option
@format_option("text", "json", help="Print text or JSON.")
@with_exit_code
def predict(
    sweep: str, overrides: tuple[str, ...], arm: str, generation: int | None, form: str | None
) -> int:
    """Predict time, memory and energy of a config that SWEEP did not measure.

    \b
    rnnsweep predict quickstart --set units=96 --set layers=1

    90 % of such trials are expected in the intervals. Nothing is predicted outside of the measured
    ranges. Exit code 1 if nothing can be predicted.
    """
    from orchestrator.report.document import Column, Document, Section, make_table
    from orchestrator.report.formats.text import to_text
    from orchestrator.report.wording import config_text
    from orchestrator.spec import yaml_locations

    config = yaml_locations.read("{}", source="--set", overrides=overrides, example="units=96").data
    expected = api.predict(sweep, config, arm, generation=generation)
    predicted = [one for one in expected if one.value is not None]
    if form == "json":
        plain = [{**dataclasses.asdict(one), "arm": str(one.arm)} for one in expected]
        show(json.dumps(plain, indent=2, allow_nan=False) + "\n")
    else:
        table = make_table(
            (
                Column("arm", lambda one: str(one.arm)),
                Column("cost", lambda one: one.target),
                Column("expected", lambda one: one.value),
                Column("low", lambda one: one.low),
                Column("high", lambda one: one.high),
            ),
            predicted,
        )
        reasons = tuple(dict.fromkeys(one.reason for one in expected if one.reason))
        section = Section("", tables=(table,) if predicted else (), paragraphs=reasons)
        title = f"Expected of {config_text(config)} by {sweep}"
        show(to_text(Document(title, (section,)), width(), colour=wants_colour()))
    return COMPLETE if predicted else WITH_FAILURES
