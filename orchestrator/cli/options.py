"""Arguments that several commands share."""

from __future__ import annotations

from pathlib import Path

import click

spec_argument = click.argument("spec", type=click.Path(path_type=Path))

set_option = click.option(
    "--set",
    "overrides",
    metavar="KEY=VALUE",
    multiple=True,
    help="Override a key of the spec, such as settings.epochs=2; may be repeated.",
)
