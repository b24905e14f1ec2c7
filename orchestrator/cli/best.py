"""`rnnsweep best`: the best config of a sweep within limits, also as a spec."""

# ruff: noqa: PLC0415

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from orchestrator import api
from orchestrator.cli import options
from orchestrator.cli.command import command
from orchestrator.cli.output import write, write_output

if TYPE_CHECKING:
    from orchestrator.report.chosen import Limit

_FORMATS = {"text": ".txt", "json": ".json", "yaml": ".yaml"}


def _limit_option(
    name: str, parameter: str, sign: Literal["≥", "≤"], help: str
) -> Callable[[options.CommandFunction], options.CommandFunction]:
    """Return an option that takes limits of metrics: `METRIC=NUMBER`."""

    def limits(_: Any, option: click.Parameter, texts: tuple[str, ...]) -> list[Limit]:
        from orchestrator.report.chosen import Limit

        try:
            return [
                Limit(metric, sign, float(bound))
                for metric, bound in (text.split("=") for text in texts)
            ]
        except ValueError:
            example = f"expected METRIC=NUMBER, such as val_accuracy=0.85; received {texts[-1]}"
            raise click.BadParameter(example, param=option) from None

    return click.option(
        name, parameter, metavar="METRIC=NUMBER", multiple=True, callback=limits, help=help
    )


@command(
    examples=[
        "rnnsweep best quickstart --min val_accuracy=0.85 --metric step_ms -o best.yaml",
        "rnnsweep run best.yaml",
    ],
)
@options.sweep_argument("sweep")
@click.option("--metric", help="Choose by this; by default by the first objective without a limit.")
@_limit_option(
    "--min", "lower_limits", "≥", "Require at least this mean of a metric; may be repeated."
)
@_limit_option(
    "--max", "upper_limits", "≤", "Require at most this mean of a metric; may be repeated."
)
@click.option("--arm", default="*", help="Choose on this implementation or arm only.")
@options.generation_option
@click.option("--code", is_flag=True, help="Print a module of Python that puts it to use.")
@options.output_options(_FORMATS)
def best(  # noqa: PLR0913  (its options)
    *,
    sweep: str,
    metric: str | None,
    lower_limits: list[Limit],
    upper_limits: list[Limit],
    arm: str,
    generation: int | None,
    code: bool,
    form: Any,
    path: Path | None,
) -> None:
    """Print the best config of a SWEEP, or write it as a spec."""
    from orchestrator.report import chosen
    from orchestrator.report.formats.json_format import to_plain_data

    if code and form:
        raise click.UsageError("--code is a format of its own: leave --format out")
    form = form or options.usual_form(path, _FORMATS)
    record = api.read_sweep(sweep, generation=generation)
    choice = chosen.choose(record, metric, (*lower_limits, *upper_limits), arm)
    if code:
        write_output(chosen.to_code(choice, record).encode(errors="replace"), path)
    elif form == "yaml":
        write_output(chosen.to_yaml(choice).encode(errors="replace"), path)
    else:
        write(to_plain_data(choice) if form == "json" else chosen.choice_document(choice), path)
