"""Commands that read what sweeps measured: `report`, `query` and `compare`."""

# ruff: noqa: PLC0415

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from orchestrator import api
from orchestrator.cli import exit_codes, output
from orchestrator.cli.jobs import fetch_report
from orchestrator.core.errors import Refusal
from orchestrator.report.document import PARTS
from orchestrator.storage.home import sweep_home
from orchestrator.storage.tracking.mlflow.address import tracking_uri

if TYPE_CHECKING:
    from orchestrator.report.compare.changes import ArmChange, Changes, FailOn

_COMPARE_FORMATS = {"text": ".txt", "markdown": ".md", "json": ".json"}
_REPORT_FORMATS = {**_COMPARE_FORMATS, "csv": ".csv", "html": ".html"}
_QUERY_FORMATS = {"table": ".txt", "csv": ".csv", "json": ".json", "parquet": ".parquet"}
"""The formats of a command, each with the suffix of its files; the first is the default."""

generation_option = click.option("--generation", type=click.IntRange(min=1))


def output_options(formats: Mapping[str, str]) -> Callable[[output.Command], output.Command]:
    """Return the options `--format` and `--output` of a command with these formats."""
    form = click.option("--format", "form", type=click.Choice([*formats]))
    kind = click.Path(path_type=Path)
    file = click.option("-o", "--output", "path", type=kind, callback=output.in_a_folder)
    return lambda command: form(file(command))


@click.command()
@output.sweep_argument("sweep", required=False)
@output_options(_REPORT_FORMATS)
@click.option("--baseline", metavar="ARM")
@click.option(
    "--target",
    "targets",
    metavar="ACCURACY",
    multiple=True,
    type=click.FloatRange(0, 1, min_open=True),
)
@generation_option
@click.option(
    "--plots",
    metavar="DIR",
    type=click.Path(path_type=Path, file_okay=False),
    callback=output.in_a_folder,
)
@click.option("--full", is_flag=True)
@click.option("--section", "parts", multiple=True, type=click.Choice([*PARTS]))
@output.dashboard_option()
def report(
    sweep: str | None,
    form: Any,
    generation: int | None,
    plots: Path | None,
    path: Path | None,
    address: str | None,
    **options: Any,
) -> None:
    """Report on a SWEEP; without a name, on the latest one."""
    form = form or usual_form(path, _REPORT_FORMATS)
    _expect_no_terminal(form, path, sweep or "report")
    shown = {name: options.pop(name) for name in ("full", "parts")}
    if any(shown.values()) and form not in ("text", "markdown"):
        raise Refusal(
            f"--{'full' if shown['full'] else 'section'}: expected --format text or markdown, "
            f"received {form}, which is always whole"
        )
    if address is not None and plots is not None:
        raise Refusal("--plots: expected without --address; the page (-o NAME.html) has the plots")
    if address is not None:
        given = {"format": form, "baseline": options["baseline"], "generation": generation}
        words = [f"--{name}={value}" for name, value in given.items() if value is not None]
        words += [f"--target={target}" for target in options["targets"]]
        words += [f"--section={part}" for part in shown["parts"]] + ["--full"] * shown["full"]
        output.put(fetch_report(address, sweep, words), path)
        return
    if sweep is None:
        from orchestrator.cli.local import list_sweeps

        home = sweep_home()
        sweeps = list_sweeps(home) or list_sweeps(home, tracking_uri(home, os.environ))
        if not sweeps:
            raise Refusal(f"no sweep in {home} or its store. Run one first: rnnsweep run SPEC")
        sweep = sweeps[0]["sweep"]
        output.show(f"{sweep} is the latest sweep; rnnsweep list shows all\n", err=True)
    record = api.read_sweep(sweep, generation=generation)
    from orchestrator.report import render

    summary = render.summarise(record, **options)
    colour = path is None and output.wants_colour()
    text = render.render(summary, form, width=output.width(), colour=colour, **shown)
    output.put(text.encode(errors="replace"), path)
    if plots is not None:
        from orchestrator.report.formats.images import draw

        try:
            drawn = draw(summary, plots)
        except OSError as error:
            raise Refusal(output.unwritable(plots, error)) from error
        click.echo(f"wrote {len(drawn)} files into {plots}", err=True)


@click.command()
@output.sweep_argument("sweep")
@click.argument("where", required=False, default="")
@click.option("--sql", metavar="SELECT…", default="")
@click.option("--also", metavar="OTHER", multiple=True)
@click.option("--columns", metavar="A,B,…")
@click.option("--sort", metavar="A,-B,…")
@click.option("--limit", metavar="N", type=click.IntRange(min=0))
@click.option("--list", "lists", is_flag=True)
@generation_option
@output_options(_QUERY_FORMATS)
def query(
    sweep: str,
    where: str,
    sql: str,
    also: tuple[str, ...],
    form: Any,
    path: Path | None,
    **options: Any,
) -> None:
    """Print the trials of SWEEP that match WHERE, or the result of SQL."""
    from orchestrator.report.query import as_bytes, ask, usual_columns
    from orchestrator.storage.tracking.reader import read_rows

    chosen = [where, options["columns"], options["sort"], options["limit"]]
    if sql and any(option not in ("", None) for option in chosen):
        raise Refusal(
            "--sql: expected no WHERE, --columns, --sort or --limit; write them into the statement"
        )
    form = form or usual_form(path, _QUERY_FORMATS)
    _expect_no_terminal(form, path, sweep)
    store = tracking_uri(sweep_home(), os.environ)
    asked = {sweep: options["generation"], **dict.fromkeys(also)}
    read = {label: read_rows(store, label, number) for label, number in asked.items()}
    sweeps = {label: record for label, (record, _) in read.items()}
    rows = {label: table for label, (_, table) in read.items()}
    record = sweeps[sweep]
    wanted = _names(options["columns"])
    columns = None if options["lists"] or wanted in ([], ["all"]) else wanted
    rest = {"limit": options["limit"], "sql": sql, "lists": options["lists"]}
    result = ask(sweeps, where, columns, sort=_names(options["sort"]), rows=rows, **rest)
    if not (wanted or sql or options["lists"]) and form == "table":
        result = result[usual_columns(record, rows[sweep], list(result))]
    about = {"sweep": record.name, "generation": record.generation, "also": also}
    output.put(
        as_bytes(result, form, {**about, **({"sql": sql} if sql else {"where": where})}), path
    )
    trials = sum(map(len, rows.values()))
    if not trials:
        output.show("no trial of this sweep has ended yet\n", err=True)
    elif not sql and not options["lists"] and (form == "table" or not len(result)):
        output.show(f"{len(result)} of {trials} trials\n", err=True)


@click.command()
@output.sweep_argument("before", metavar="A")
@output.sweep_argument("after", metavar="B")
@click.option(
    "--fail-on",
    type=click.Choice(["slower", "faster", "worse", "larger", "changed", "inconclusive"]),
    multiple=True,
)
@click.option("--accept-provisional", is_flag=True)
@click.option(
    "--margin",
    type=click.FloatRange(min=0, min_open=True, max=1),
    default=0.05,
    show_default=True,
)
@output_options(_COMPARE_FORMATS)
def compare(
    before: str,
    after: str,
    fail_on: tuple[FailOn, ...],
    margin: float,
    form: str | None,
    path: Path | None,
    *,
    accept_provisional: bool,
) -> int:
    """Report what changed beyond noise from A to B."""
    from orchestrator.report.compare.changes import failing
    from orchestrator.report.compare.document import as_json, to_document

    form = form or usual_form(path, _COMPARE_FORMATS)
    changes = api.compare(before, after, margin=margin)
    changes = replace(changes, accept_provisional=accept_provisional)
    failed = failing(changes, fail_on)
    is_json = form == "json"
    content = as_json(changes, failed) if is_json else to_document(changes)
    output.write(content, path, markdown=form == "markdown")
    fails = _print_failures(changes, failed, fail_on)
    return exit_codes.WITH_FAILURES if fails else exit_codes.COMPLETE


def _print_failures(
    changes: Changes, failed: Sequence[ArmChange], fail_on: Sequence[FailOn]
) -> bool:
    """Print what makes the exit code 1 and every arm without a verdict; return if there is any."""
    if failed:
        output.show(f"--fail-on: {'; '.join(str(arm.after) for arm in failed)}\n", err=True)
    if not fail_on:
        return False
    is_failure = "inconclusive" in fail_on and (changes.all_inconclusive or bool(changes.unjudged))
    new = ((arm, f"only {changes.after} has it") for arm in changes.only_after)
    names = [f"{arm} ({reason})" for arm, reason in (*changes.unjudged, *new)]
    if names:
        head = "--fail-on inconclusive" if is_failure else "Warning"
        output.show(f"{head}: not judged: {'; '.join(names)}\n", err=True)
    if changes.all_inconclusive and is_failure:
        output.show("--fail-on inconclusive: no arm could be judged\n", err=True)
    elif changes.all_inconclusive and not failed:
        output.show(
            "Warning: no arm could be judged, so that --fail-on had nothing to check; "
            "`--fail-on inconclusive` makes that exit code 1\n",
            err=True,
        )
    return bool(failed) or is_failure


def usual_form(path: Path | None, formats: Mapping[str, str]) -> Any:
    """Return the format of the file's suffix, the first one if it has none; refuse others."""
    if path is None or not path.suffix:
        return next(iter(formats))
    suffix = {".htm": ".html", ".yml": ".yaml"}.get(path.suffix.lower(), path.suffix.lower())
    for form, its_suffix in formats.items():
        if suffix == its_suffix:
            return form
    raise Refusal(
        f"{path}: expected a name that ends in {', '.join(formats.values())}; received "
        f"{path.suffix}. Rename it, or add --format"
    )


def _expect_no_terminal(form: str, path: Path | None, sweep: str) -> None:
    if form in ("html", "parquet") and path is None and sys.stdout.isatty():
        name = sweep.replace("#", "-").replace("/", "-")
        raise Refusal(
            f"--format {form}: expected a file to write to, received a terminal. "
            f"Add -o {name}.{form}"
        )


def _names(text: str | None) -> list[str]:
    return list(dict.fromkeys(name for part in (text or "").split(",") if (name := part.strip())))


COMMANDS = (report, query, compare)
