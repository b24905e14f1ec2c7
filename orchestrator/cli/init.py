"""`rnnsweep init`: a spec to begin with."""

# ruff: noqa: PLC0415

from __future__ import annotations

import shlex
from pathlib import Path

import click

from orchestrator.cli import options
from orchestrator.cli.command import command
from orchestrator.cli.messages import show, unwritable
from orchestrator.cli.output import write_output
from orchestrator.core.errors import Refusal
from orchestrator.core.shipped_sweeps import sweeps_folder

TEMPLATES = ("quickstart", "timing", "cluster", "own-model", "own-workload")
"""Names of files of `sweeps/`, `-` for `_`: a spec, and a module next to it if there is one."""

_SCHEMA, _SCHEMA_COPY = "../orchestrator/spec/spec.schema.json", "rnnsweep.schema.json"


_NOTES = """
Templates: quickstart compares TensorFlow's kernels in three minutes; timing compares only their
speed; cluster compares the hardware of a Ray cluster; own-model trains your own Keras model on
every implementation; own-workload runs your own training loop.
Existing files are kept, except rnnsweep.schema.json, with which editors complete and check the
spec.
"""


@command(examples=["rnnsweep init my-sweep --template timing"], notes=_NOTES)
@click.argument("directory", type=options.FILE, default=".")
@click.option(
    "--template",
    type=click.Choice(TEMPLATES),
    default="quickstart",
    show_default=True,
    help="The spec to write.",
)
def init(directory: Path, template: str) -> None:
    """Write a commented example spec into DIRECTORY."""
    from orchestrator.spec import spec_schema

    name = template.replace("-", "_")
    spec, sources = f"{name}.yaml", sorted(sweeps_folder().glob(f"{name}.*"), reverse=True)
    try:
        for path in (directory / source.name for source in sources):
            if path.exists():
                raise Refusal(
                    f"{path} exists already. Move it, or choose another folder: rnnsweep init "
                    "DIRECTORY"
                )
        directory.mkdir(parents=True, exist_ok=True)
        for source in sources:
            text = source.read_text(encoding="utf-8").replace(_SCHEMA, _SCHEMA_COPY)
            write_output(text.replace("sweeps/", "").encode(), directory / source.name)
        write_output(
            spec_schema.spec_schema_text().encode(), directory / _SCHEMA_COPY
        )  # no user's own file
    except OSError as error:
        raise unwritable(directory, error) from error
    enter = [] if directory.resolve() == Path.cwd() else [f"cd {shlex.quote(str(directory))}"]
    commands = (f"rnnsweep {words}" for words in _next_commands(spec, template))
    show("".join(f"{line}\n" for line in ["Next:", *enter, *commands]))


def _next_commands(spec: str, template: str) -> tuple[str, ...]:
    """Return the commands that check, plan and start a spec; of a cluster, those with its address.

    `doctor` and `submit` take the address of its dashboard, and `plan` the one of Ray.
    """
    if template != "cluster":
        return "doctor", f"plan {spec}", f"run {spec}"
    dashboard = "--address http://HEAD:8265"
    return f"doctor {dashboard}", f"plan {spec} --address HEAD:6379", f"submit {spec} {dashboard}"
