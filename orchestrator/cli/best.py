"""Commands on single configs: the `best` one, what one is to cost (`predict`), and `bench`."""

# ruff: noqa: PLC0415

from __future__ import annotations

import dataclasses
import signal
from collections.abc import Callable
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from orchestrator import api
from orchestrator.cli import exit_codes, output
from orchestrator.cli.reports import generation_option, output_options, usual_form

if TYPE_CHECKING:
    from orchestrator.report.chosen import Limit

_FORMATS = {"text": ".txt", "json": ".json", "yaml": ".yaml"}


def _limit_option(name: str, sign: str) -> Callable[[output.Command], output.Command]:
    """Return an option that takes limits of metrics: `METRIC=NUMBER`."""

    def limits(_: Any, option: click.Parameter, texts: tuple[str, ...]) -> list[Limit]:
        try:
            return [(metric, sign, float(end)) for metric, end in (t.split("=") for t in texts)]
        except ValueError:
            example = f"expected METRIC=NUMBER, such as val_accuracy=0.85; received {texts[-1]}"
            raise click.BadParameter(example, param=option) from None

    return click.option(name, metavar="METRIC=NUMBER", multiple=True, callback=limits)


@click.command()
@output.sweep_argument("sweep")
@click.option("--metric")
@_limit_option("--min", "≥")
@_limit_option("--max", "≤")
@click.option("--arm", default="*")
@generation_option
@output_options(_FORMATS)
def best(sweep: str, generation: int | None, form: Any, path: Path | None, **asked: Any) -> None:
    """Print the best config of a SWEEP, or write it as a spec."""
    from orchestrator.report import chosen
    from orchestrator.report.formats.json_format import plain

    form = form or usual_form(path, _FORMATS)
    limits = (*asked["min"], *asked["max"])
    record = api.read_sweep(sweep, generation=generation)
    choice = chosen.choose(record, asked["metric"], limits, asked["arm"])
    if form == "yaml":
        output.put(chosen.to_yaml(choice).encode(errors="replace"), path)
    else:
        output.write(plain(choice) if form == "json" else chosen.to_document(choice), path)


@click.command()
@output.sweep_argument("sweep")
@output.set_option
@click.option("--arm", default="*", metavar="ARM")
@generation_option
@output.json_option
def predict(
    sweep: str, overrides: tuple[str, ...], arm: str, generation: int | None, form: str | None
) -> int:
    """Predict time, memory and energy of a config not yet measured."""
    from orchestrator.report.document import Column, Document, Section, make_table
    from orchestrator.report.wording import config_text
    from orchestrator.spec import yaml_locations

    config = yaml_locations.read("{}", source="--set", overrides=overrides, example="units=96").data
    expected = api.predict(sweep, config, arm, generation=generation)
    predicted = [one for one in expected if one.value is not None]
    if form == "json":
        output.write([{**dataclasses.asdict(one), "arm": str(one.arm)} for one in expected])
    else:
        titles = {"arm": "arm", "target": "cost", "value": "expected", "low": "low", "high": "high"}
        columns = [
            Column(title, attrgetter(name), numeric=title not in ("arm", "cost"))
            for name, title in titles.items()
        ]
        table = make_table(columns, predicted)
        reasons = tuple(dict.fromkeys(one.reason for one in expected if one.reason))
        section = Section("", tables=(table,) if predicted else (), paragraphs=reasons)
        title = f"Expected of {config_text(config)} by {sweep}"
        output.write(Document(title, (section,)))
    return exit_codes.COMPLETE if predicted else exit_codes.WITH_FAILURES


@click.command()
@click.argument("implementations", metavar="IMPLEMENTATION...", nargs=-1, required=True)
@click.option("--workload", default="char_rnn", show_default=True)
@output.set_option
@click.option("--hardware", "device", default="cpu", show_default=True)
@click.option("--rounds", type=click.IntRange(min=1, max=1000), default=6, show_default=True)
@output.new_file_option("--export-json")
@output.new_file_option("--save-spec")
@output.json_progress_option
def bench(
    implementations: tuple[str, ...],
    workload: str,
    overrides: tuple[str, ...],
    device: str,
    rounds: int,
    export_json: Path | None,
    save_spec: Path | None,
) -> int:
    """Compare the speed of IMPLEMENTATIONs on this machine."""
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    from orchestrator.analysis.summary import summarise
    from orchestrator.diagnostics import bench as benches
    from orchestrator.report.formats.json_format import to_json
    from orchestrator.report.formats.text import to_text

    made = benches.make_bench(implementations, workload, overrides, device)
    if save_spec is not None:
        output.put(benches.as_spec(made).encode(), save_spec)
    console, round_shown = Console(stderr=True), 0

    def print_round() -> None:
        nonlocal round_shown
        if len(made.rounds) > round_shown:
            round_shown = len(made.rounds)
            text = f"round {round_shown} of {rounds}"
            output.show_progress(text, "round", round=round_shown, rounds=rounds)

    def drawn() -> Text:
        head = f"round {len(made.rounds)} of {rounds}\n"
        document = benches.as_document(summarise(made.record()))
        return Text.from_ansi(head + to_text(document, output.width(), colour=True))

    code = exit_codes.COMPLETE
    with exit_codes.interrupted_by(signal.SIGTERM):
        try:
            if console.is_terminal and not output.Messages.are_json:
                with Live(console=console, auto_refresh=False, transient=True) as live:
                    made.run(rounds, lambda: live.update(drawn(), refresh=True))
            else:
                made.run(rounds, print_round)
        except KeyboardInterrupt:
            made.rounds = [trials for trials in made.rounds if all(one.ended for one in trials)]
            if not made.rounds:
                raise
            output.show(f"Stopped after {len(made.rounds)} of {rounds} rounds.\n", err=True)
            code = exit_codes.STOPPED
    summary = summarise(made.record())
    output.write(benches.as_document(summary))
    if export_json is not None:
        output.put(to_json(summary).encode(), export_json)
    return code or (exit_codes.WITH_FAILURES if summary.left_out else exit_codes.COMPLETE)
