"""`rnnsweep report`: the answer of a sweep, as text, Markdown, JSON or a page."""

# ruff: noqa: PLC0415

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from orchestrator import api
from orchestrator.cli import options
from orchestrator.cli.cluster_starts import fetch_output
from orchestrator.cli.command import command
from orchestrator.cli.exit_codes import COMPLETE
from orchestrator.cli.messages import show, show_progress, unwritable, wants_colour
from orchestrator.cli.output import width, write_output
from orchestrator.core.errors import Refusal
from orchestrator.report.document import PARTS
from orchestrator.report.formats import FORMATS, SUFFIXES
from orchestrator.storage.home import sweep_home
from orchestrator.storage.tracking.trackers import tracking_uri

_WITH_PARTS = " or ".join(name for name, each in FORMATS.items() if each.has_parts)

_NOTES = """
Text shows only the answer; --full and --section show more. `html` is one file, which a browser
opens without a network. With --address, the head of the cluster makes the report, so only the head
needs access to the store.
"""


@command(
    examples=[
        "rnnsweep report quickstart",
        "rnnsweep report quickstart --section sizes",
        "rnnsweep report quickstart -o report.html",
    ],
    notes=_NOTES,
)
@options.sweep_argument("sweep", required=False)
@options.output_options(SUFFIXES)
@click.option("--baseline", metavar="ARM", help="Compare with this implementation, variant or arm.")
@click.option(
    "--target",
    "targets",
    metavar="ACCURACY",
    multiple=True,
    type=click.FloatRange(0, 1, min_open=True),
    help=("Also report time, energy and cost until val_accuracy reaches this; may be repeated."),
)
@click.option(
    "--plots",
    metavar="DIR",
    type=click.Path(path_type=Path, file_okay=False),
    callback=options.in_a_folder,
    help="Also draw the report's plots into this folder, as PNG and SVG.",
)
@click.option("--full", is_flag=True, help="Print all six parts, not only the answer.")
@click.option(
    "--section",
    "parts",
    multiple=True,
    type=click.Choice([*PARTS]),
    help=f"Print only this part; may be repeated ({_WITH_PARTS}).",
)
@options.dashboard_option()
def report(  # noqa: PLR0913  (its options)
    *,
    sweep: str | None,
    form: Any,
    path: Path | None,
    baseline: str | None,
    targets: tuple[float, ...],
    plots: Path | None,
    full: bool,
    parts: tuple[str, ...],
    address: str | None,
) -> int:
    """Report on a SWEEP; without a name, on the latest one."""
    form = form or options.usual_form(path, SUFFIXES)
    options.expect_no_terminal(form, path, sweep or "report")
    if (full or parts) and not FORMATS[form].has_parts:
        raise Refusal(
            f"--{'full' if full else 'section'} is for --format {_WITH_PARTS}; {form} always has "
            "all parts"
        )
    if address is not None and plots is not None:
        raise Refusal("--plots does not work with --address: the page (-o NAME.html) has the plots")
    if address is not None:
        words = [
            f"--format={form}",
            *([f"--baseline={baseline}"] if baseline is not None else []),
            *(f"--target={target}" for target in targets),
            *(f"--section={part}" for part in parts),
            *(["--full"] if full else []),
        ]
        write_output(fetch_output(address, "report", sweep, words), path)
        return COMPLETE
    if sweep is None:
        sweep = _latest_sweep()
    record = api.read_sweep(sweep)
    from orchestrator.report.render import render, summarise

    summary = summarise(record, baseline=baseline, targets=targets)
    colour = path is None and wants_colour()
    text = render(
        summary,
        form,
        width=width(),
        colour=colour,
        full=full,
        parts=parts,
    )
    write_output(text.encode(errors="replace"), path)
    if plots is not None:
        from orchestrator.report.formats.images import draw

        try:
            drawn = draw(summary, plots)
        except OSError as error:
            raise unwritable(plots, error) from error
        show_progress(f"wrote {len(drawn)} files into {plots}")
    return COMPLETE


def _latest_sweep() -> str:
    """Return the name of the sweep that ran last, here or in the store."""
    from orchestrator.cli.local import sweep_rows

    home = sweep_home()
    here = [row["sweep"] for row in sweep_rows(home) if row["trials"]]
    sweeps = here or [row["sweep"] for row in sweep_rows(home, tracking_uri(home, os.environ))]
    if not sweeps:
        raise Refusal(f"no sweep in {home} or its store. Run one first: rnnsweep run quickstart")
    latest: str = sweeps[0]
    show(f"{latest} is the latest sweep; rnnsweep status shows all\n", err=True)
    return latest
