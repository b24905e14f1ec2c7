"""The first steps: `init` writes a spec, `demo` runs one, `doctor` checks the machine."""

# ruff: noqa: PLC0415

from __future__ import annotations

import dataclasses
import logging
import os
import shlex
from pathlib import Path
from typing import Any

import click

from orchestrator.cli import exit_codes, output
from orchestrator.cli.run import run
from orchestrator.core.errors import Refusal
from orchestrator.core.version import ROOT
from orchestrator.storage.home import sweep_home

TEMPLATES = ("quickstart", "timing", "cluster", "own-workload")
"""Names of files of `sweeps/`, `-` for `_`: a spec, and a module next to it if there is one."""

_SCHEMA, _SCHEMA_COPY = "../orchestrator/spec/spec.schema.json", "rnnsweep.schema.json"
_COLOURS = {"ok": "green", "warning": "yellow", "missing": "red"}


def sweeps_folder() -> Path:
    """Return the folder of the files of `sweeps/`: that of a wheel, or that of the checkout."""
    packaged = ROOT / "orchestrator" / "sweeps"
    return packaged if packaged.is_dir() else ROOT / "sweeps"


@click.command()
@click.argument("directory", type=output.FILE, default=".")
@click.option("--template", type=click.Choice(TEMPLATES), default="quickstart", show_default=True)
def init(directory: Path, template: str) -> None:
    """Write a commented spec to begin with, into DIRECTORY."""
    from orchestrator.spec.json_schema import SCHEMA_FILE

    name = template.replace("-", "_")
    spec, sources = f"{name}.yaml", sorted(sweeps_folder().glob(f"{name}.*"), reverse=True)
    try:
        for path in (directory / source.name for source in sources):
            if path.exists():
                raise Refusal(
                    f"{path}: expected no such file, because nothing is overwritten. Move it, or "
                    "name another folder: rnnsweep init DIRECTORY"
                )
        directory.mkdir(parents=True, exist_ok=True)
        for source in sources:
            text = source.read_text(encoding="utf-8").replace(_SCHEMA, _SCHEMA_COPY)
            output.put(text.replace("sweeps/", "").encode(), directory / source.name)
        output.put(SCHEMA_FILE.read_bytes(), directory / _SCHEMA_COPY)  # no user's own file
    except OSError as error:
        raise Refusal(output.unwritable(directory, error)) from error
    enter = [] if directory.resolve() == Path.cwd() else [f"cd {shlex.quote(str(directory))}"]
    start = f"submit {spec} --address http://HEAD:8265" if template == "cluster" else f"run {spec}"
    commands = (f"rnnsweep {words}" for words in ("doctor", f"plan {spec}", start))
    output.show("".join(f"{line}\n" for line in ["Next:", *enter, *commands]))


@click.command(params=[one for one in run.params if one.name not in ("spec", "address", "resume")])
@click.pass_context
def demo(context: click.Context, /, overrides: tuple[str, ...], **options: Any) -> None:
    """Run the quickstart, a sweep of three minutes, and report on it."""
    options["spec"] = sweeps_folder() / "quickstart.yaml"
    retry = options["retry_failed"]
    resume = output.resume_command("demo", None, overrides, retry_failed=retry)
    context.invoke(run, overrides=overrides, address=None, resume=resume, **options)


@click.command()
@click.option("--for", "spec", metavar="SPEC", type=output.FILE)
@click.option("--address", metavar="ADDR")
@output.json_option
def doctor(spec: Path | None, address: str | None, form: str | None) -> int:
    """Check this machine, and name what is missing and its cure."""
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "5")  # before MLflow is imported
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1")
    logging.getLogger("ray._private.authentication").setLevel("ERROR")  # of a token, at each start
    from orchestrator.diagnostics.doctor import check_machine
    from orchestrator.spec import load

    checked = load(spec) if spec else None
    width = max([12, *map(len, checked.arms.implementations if checked else ())])
    checks = []
    for check in check_machine(sweep_home(any_kind=True), checked, address, output.show_progress):
        checks.append(check)
        if form != "json":
            status = click.style(f"{check.status:8}", fg=_COLOURS[check.status])
            lines = [*check.text.splitlines(), *([check.cure] if check.cure else [])]
            text = f"\n{'':{width + 10}}".join(lines)
            output.show(f"{status} {check.name:{width}} {text}\n")
    missing = [one.name for one in checks if one.status == "missing" and one.is_needed]
    if form == "json":
        body = {"is_ready": not missing, "checks": [dataclasses.asdict(one) for one in checks]}
        output.write({"format": "rnnsweep-doctor", "version": 1, **body})
    else:
        hint = f". Arms that cannot run are left out: rnnsweep plan {spec}" if spec else ""
        output.show(f"\nMissing: {', '.join(missing)}{hint}\n" if missing else "\nReady\n")
    return exit_codes.WITH_FAILURES if missing else exit_codes.COMPLETE


COMMANDS = (init, demo, doctor)
