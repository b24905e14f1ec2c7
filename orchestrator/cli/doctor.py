"""`rnnsweep doctor`: what a machine or a cluster lacks, and its cure."""

# ruff: noqa: PLC0415

import dataclasses
import logging
import os
import shlex
from pathlib import Path

import click

from orchestrator.cli import options
from orchestrator.cli.command import command
from orchestrator.cli.exit_codes import COMPLETE, WITH_FAILURES
from orchestrator.cli.messages import show, show_progress
from orchestrator.cli.output import write
from orchestrator.core.formats import Format
from orchestrator.core.shipped_sweeps import spec_as_typed
from orchestrator.storage.home import sweep_home

DOCTOR = Format("a check of a machine", 2, id="rnnsweep-doctor")
_COLOURS = {"ok": "green", "warning": "yellow", "left out": "yellow", "missing": "red"}


@command(
    examples=["rnnsweep doctor --for quickstart"],
    notes=(
        "The exit code is 1 if no sweep can run here or, with --for, if none of the spec's arms "
        "can. If only some arms cannot run, the sweep leaves them out."
    ),
)
@click.option(
    "--for",
    "spec",
    metavar="SPEC",
    type=options.FILE,
    callback=options.find_spec_and_code,
    help="Also check what this spec needs.",
)
@click.option(
    "--address",
    metavar="ADDR",
    help="Check the cluster at this address (Ray's, or its dashboard's), and list its nodes.",
)
@options.json_option
def doctor(spec: Path | None, address: str | None, form: str | None) -> int:
    """Check this machine, and show how to install what is missing."""
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "5")  # before MLflow is imported
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1")
    logging.getLogger("ray._private.authentication").setLevel("ERROR")  # of a token, at each start
    from orchestrator.diagnostics.doctor import check_machine
    from orchestrator.spec import load_spec

    checked = load_spec(spec, import_classes=True) if spec else None
    width = max([12, *map(len, checked.arms.implementations if checked else ())])
    checks = []
    for check in check_machine(sweep_home(any_kind=True), checked, address, show_progress):
        checks.append(check)
        if form != "json":
            status = click.style(f"{check.status:8}", fg=_COLOURS[check.status])
            lines = [*check.text.splitlines(), *([check.cure] if check.cure else [])]
            text = f"\n{'':{width + 10}}".join(lines)
            show(f"{status} {check.name:{width}} {text}\n")
    missing = [check.name for check in checks if check.status == "missing" and check.is_needed]
    if form == "json":
        body = {"is_ready": not missing, "checks": [dataclasses.asdict(check) for check in checks]}
        write({**DOCTOR.head(), **body})
    else:
        left_out = [check.name for check in checks if check.status == "left out"]
        show(f"\n{_describe_missing(missing, left_out, spec)}\n")
    return WITH_FAILURES if missing else COMPLETE


def _describe_missing(missing: list[str], left_out: list[str], spec: Path | None) -> str:
    text = f"Missing: {', '.join(missing)}" if missing else "Ready"
    if left_out and spec is not None:
        plan = f"rnnsweep plan {shlex.quote(spec_as_typed(spec))}"
        text += f". Left out of the sweep: {', '.join(left_out)} ({plan})"
    return text
