"""`rnnsweep best`: the best config of a sweep within limits, also as a spec."""

# ruff: noqa: PLC0415

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click

from orchestrator import api
from orchestrator.cli import options
from orchestrator.cli.cluster_starts import fetch_output
from orchestrator.cli.command import command
from orchestrator.cli.output import write, write_output

_FORMATS = {"text": ".txt", "json": ".json", "yaml": ".yaml"}


def _limit_option(
    name: str, parameter: str, help: str
) -> Callable[[options.CommandFunction], options.CommandFunction]:
    """Return an option that takes limits of metrics: `METRIC=NUMBER`."""

    def limits(_: Any, option: click.Parameter, texts: tuple[str, ...]) -> dict[str, float]:
        bounds = dict[str, float]()
        for text in texts:
            metric, _, bound = text.partition("=")
            if metric in bounds:
                raise click.BadParameter(
                    f"expected one limit for {metric}; received two: {' and '.join(texts)}",
                    param=option,
                )
            try:
                bounds[metric] = float(bound)
            except ValueError:
                example = f"expected METRIC=NUMBER, such as val_accuracy=0.85; received {text}"
                raise click.BadParameter(example, param=option) from None
        return bounds

    return click.option(
        name, parameter, metavar="METRIC=NUMBER", multiple=True, callback=limits, help=help
    )


@command(
    examples=[
        "rnnsweep best quickstart --min val_accuracy=0.85 --metric samples_per_s -o best.yaml",
        "rnnsweep run best.yaml",
    ],
)
@options.sweep_argument("sweep")
@click.option(
    "--metric",
    help="Choose by this metric. Default: the first objective that has no --min or --max.",
)
@_limit_option("--min", "at_least", "Require a mean of at least NUMBER; may be repeated.")
@_limit_option("--max", "at_most", "Require a mean of at most NUMBER; may be repeated.")
@click.option("--arm", default="*", help="Consider only this implementation or arm.")
@click.option("--code", is_flag=True, help="Print Python code that uses the implementation.")
@options.dashboard_option()
@options.output_options(_FORMATS)
def best(  # noqa: PLR0913  (its options)
    *,
    sweep: str,
    metric: str | None,
    at_least: Mapping[str, float],
    at_most: Mapping[str, float],
    arm: str,
    code: bool,
    address: str | None,
    form: Any,
    path: Path | None,
) -> None:
    """Print the best config of a SWEEP, and the fastest arm for it."""
    from orchestrator.report.best.chosen import choice_document, to_yaml
    from orchestrator.report.formats.json_format import to_plain_data

    if code and form:
        raise click.UsageError("--code prints Python: leave --format out")
    if not (code or form):
        form = options.usual_form(path, _FORMATS)
    if address is not None:
        words = [
            *(["--code"] if code else [f"--format={form}"]),
            *([f"--metric={metric}"] if metric else []),
            *(f"--min={name}={bound!r}" for name, bound in at_least.items()),
            *(f"--max={name}={bound!r}" for name, bound in at_most.items()),
            f"--arm={arm}",
        ]
        write_output(fetch_output(address, "best", sweep, words), path)
        return
    choice = api.best(sweep, metric, at_least=at_least, at_most=at_most, arm=arm)
    if code:
        write_output(choice.code().encode(errors="replace"), path)
    elif form == "yaml":
        write_output(to_yaml(choice).encode(errors="replace"), path)
    elif form == "json":
        write(to_plain_data(choice.as_json()), path)
    else:
        write(choice_document(choice), path)
