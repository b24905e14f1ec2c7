"""`rnnsweep compare`: what changed beyond noise between two sweeps, for people and for CI."""

# ruff: noqa: PLC0415

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from orchestrator import api
from orchestrator.cli import options
from orchestrator.cli.cluster_starts import fetch_output
from orchestrator.cli.command import command
from orchestrator.cli.exit_codes import COMPLETE, WITH_FAILURES
from orchestrator.cli.messages import show
from orchestrator.cli.output import write

if TYPE_CHECKING:
    from orchestrator.analysis.contrasts.contrast import Contrast
    from orchestrator.report.compare.changes import Changes, FailOn

_FORMATS = {"text": ".txt", "markdown": ".md", "json": ".json"}

_NOTES = """
A and B are sweeps (`quickstart`), generations (`quickstart#1`), or reports in JSON files
(`baseline.json`). Arms with the same name are compared, over the configs that both sides have. A
verdict needs at least 6 such configs, or 6 repeats of a single config. With --fail-on, arms without
a verdict (gone, open, busy or on other hardware) are listed on stderr. They change the exit code
only with `--fail-on open`.
"""


@command(
    examples=["rnnsweep compare baseline.json quickstart --fail-on slower"],
    notes=_NOTES,
)
@options.sweep_argument("before", metavar="A")
@options.sweep_argument("after", metavar="B")
@click.option(
    "--fail-on",
    type=options.CurrentChoice(
        ["slower", "faster", "worse", "larger", "changed", "open"], former={"inconclusive": "open"}
    ),
    multiple=True,
    help=(
        "Exit with code 1 if an arm became slower, faster, worse (less accurate) or larger (more"
        " memory), changed in any way, or is open (has no verdict); may be repeated."
    ),
)
@click.option(
    "--busy-counts",
    is_flag=True,
    help="Accept verdicts from a busy machine, which otherwise count as open.",
)
@options.former_option("--accept-provisional", instead="--busy-counts")
@click.option(
    "--margin",
    type=click.FloatRange(min=0, min_open=True, max=1),
    default=0.05,
    show_default=True,
    help="Ignore changes of the time per step, or of memory, up to this share.",
)
@options.dashboard_option()
@options.output_options(_FORMATS)
def compare(  # noqa: PLR0913  (its options)
    before: str,
    after: str,
    fail_on: tuple[FailOn, ...],
    margin: float,
    address: str | None,
    form: str | None,
    path: Path | None,
    *,
    busy_counts: bool,
) -> int:
    """Report what changed beyond noise from A to B."""
    from orchestrator.report.compare.changes import failing
    from orchestrator.report.compare.document import changes_document, changes_json

    form = form or options.usual_form(path, _FORMATS)
    with contextlib.ExitStack() as stack:
        if address is not None:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rnnsweep-")))
            before, after = (_fetched(address, side, folder) for side in (before, after))
        changes = api.compare(before, after, margin=margin, busy_counts=busy_counts)
    failed = failing(changes, fail_on)
    if form == "json":
        write(changes_json(changes, failed), path)
    else:
        write(changes_document(changes), path, markdown=form == "markdown")
    fails = _print_failures(changes, failed, fail_on)
    return WITH_FAILURES if fails else COMPLETE


def _fetched(address: str, side: str, folder: Path) -> str:
    """Return the report's JSON file of a sweep on a cluster; a file here is returned as it is."""
    if side.endswith(".json"):
        return side
    file = folder / f"{side}.json"
    file.write_bytes(fetch_output(address, "report", side, ["--format=json"]))
    return str(file)


def _print_failures(
    changes: Changes, failed: Sequence[Contrast], fail_on: Sequence[FailOn]
) -> bool:
    """Print what makes the exit code 1 and every arm without a verdict; return if there is any."""
    from orchestrator.report.words import verdict_label

    if failed:
        texts = (f"{c.subject} ({c.metric} {verdict_label(c)})" for c in failed)
        show(f"--fail-on: {'; '.join(texts)}\n", err=True)
    if not fail_on:
        return False
    is_failure = "open" in fail_on and (changes.all_open or bool(changes.unjudged))
    new = ((arm, f"only {changes.after} has it") for arm in changes.only_after)
    names = [f"{arm} ({reason})" for arm, reason in (*changes.unjudged, *new)]
    if names:
        head = "--fail-on open" if is_failure else "Warning"
        show(f"{head}: no verdict: {'; '.join(names)}\n", err=True)
    if changes.all_open and is_failure:
        show("--fail-on open: no arm has a verdict\n", err=True)
    elif changes.all_open and not failed:
        show(
            "Warning: no arm has a verdict, so --fail-on checked nothing. To fail in this case, "
            "add --fail-on open\n",
            err=True,
        )
    return bool(failed) or is_failure
