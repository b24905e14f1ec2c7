"""Arguments, questions and hints that several commands share."""

from __future__ import annotations

import functools
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from orchestrator.core.errors import Refusal

Command = TypeVar("Command", bound=Callable[..., Any])

MANY_TRIALS = 500
"""Trials beyond which a person at a terminal is asked before a sweep starts."""

spec_argument = click.argument("spec", type=click.Path(path_type=Path))


def setting_option(text: str) -> Callable[[Command], Command]:
    """Return the option `--set KEY=VALUE` with this help."""
    return click.option("--set", "overrides", metavar="KEY=VALUE", multiple=True, help=text)


set_option = setting_option(
    "Override a key of the spec, such as settings.epochs=2; may be repeated."
)

address_option = click.option(
    "--address",
    metavar="ADDR",
    help="Use the Ray cluster at this address; by default this machine alone.",
)


same_code_option = click.option(
    "--same-code",
    is_flag=True,
    help="Resume with changed code of your own workload: the change does not matter.",
)


def dashboard_option(*, required: bool = False) -> Callable[[Command], Command]:
    """Return the option `--address URL` of a cluster."""
    return click.option(
        "--address",
        metavar="URL",
        required=required,
        help="Use the cluster with this dashboard on its head, such as http://10.0.0.5:8265.",
    )


def format_option(*formats: str, help: str) -> Callable[[Command], Command]:
    """Return the option `--format`, by the name `form`."""
    return click.option("--format", "form", type=click.Choice(formats), help=help)


def in_a_folder(_: click.Context, __: click.Parameter, path: Path | None) -> Path | None:
    """Refuse a path in a folder that does not exist, before any work is done."""
    if path is not None and not path.parent.is_dir():
        raise click.BadParameter(
            f"{path}: expected a place that can be written, received: no folder {path.parent}. "
            "Make it first (mkdir -p)"
        )
    return path


def start_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the argument and the options that every start of a sweep has."""

    @functools.wraps(command)
    def start(*, overrides: Sequence[str], accept_provisional: bool, **options: Any) -> None:
        accepted = ["disturbed.accept_provisional=true"] if accept_provisional else []
        command(overrides=(*overrides, *accepted), **options)

    for option in (
        click.option(
            "--accept-provisional",
            is_flag=True,
            help="With blocks: auto, count speed-ups that were measured on a busy machine.",
        ),
        click.option("-y", "--yes", is_flag=True, help="Start a large sweep without confirmation."),
        click.option("--retry-failed", is_flag=True, help="Re-run failed trials."),
        click.option("--fresh", is_flag=True, help="Start a new generation; keep existing trials."),
        same_code_option,
        set_option,
        spec_argument,
    ):
        start = option(start)
    return start


def set_words(overrides: Sequence[str]) -> list[str]:
    """Return the overrides as they are typed: `--set KEY=VALUE` for each."""
    return [word for override in overrides for word in ("--set", override)]


def resume_command(
    command: str,
    spec: Path,
    overrides: Sequence[str],
    *,
    address: str | None = None,
    home: str | None = None,
    retry_failed: bool = False,
) -> str:
    """Return the command that resumes a sweep, quoted for a shell."""
    words = ["rnnsweep", command, str(spec)]
    words += ["--address", address] if address else []
    words += set_words(overrides)
    words += ["--home", home] if home else []
    words += ["--retry-failed"] if retry_failed else []
    return shlex.join(words)


def expect_confirmation(question: str, ask: Callable[[str], str]) -> None:
    """Ask a question by `ask`, which prints a prompt and returns the answer.

    Raises:
        Refusal: the answer is not yes.
    """
    try:
        answer = ask(f"{question} [y/N] ")
    except EOFError:
        answer = ""
    if answer.strip().lower() not in ("y", "yes"):
        raise Refusal("nothing was run: it was not confirmed (--yes runs it without asking)")
