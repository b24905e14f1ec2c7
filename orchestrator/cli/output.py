"""Parts that commands share: arguments, questions and hints; stdout, stderr, a log of libraries."""

# ruff: noqa: PLC0415

from __future__ import annotations

import contextlib
import datetime
import functools
import io
import json
import logging
import os
import shlex
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from orchestrator.core.errors import Refusal
from orchestrator.storage.home import sweep_home

if TYPE_CHECKING:
    from rich.console import Console

    from orchestrator.report.document import Document


class Messages:
    """The form of all that a command writes to stderr: text, or JSON with `--json-progress`."""

    are_json = False

    @classmethod
    def choose(cls, _: click.Context, __: click.Parameter, are_json: bool) -> None:
        """Take the form from the option."""
        cls.are_json = are_json


def message(text: str, event: str = "message", **facts: Any) -> str:
    """Return a message in its form: a line, or an object as in `progress.schema.json`."""
    if not Messages.are_json:
        return text
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")
    head = {"format": "rnnsweep-progress", "version": 1, "event": event, "time": now}
    return json.dumps({**head, "text": text, **facts}, allow_nan=False)


def show(text: str | bytes, *, err: bool = False) -> None:
    """Print text as it is. A full disk is refused; a closed pipe (`| head`) is no error."""
    if err and Messages.are_json and isinstance(text, str) and text:
        text = f"{message(text.rstrip())}\n"
    try:
        click.echo(text, nl=False, err=err, color=None if err else wants_colour())
    except BrokenPipeError:
        discard(2 if err else 1)
    except OSError as error:
        discard(2 if err else 1)  # the rest of the buffer is lost as well
        if not err:
            raise Refusal(unwritable("stdout", error)) from error


def show_progress(line: str, event: str = "message", **facts: Any) -> None:
    """Print a line on stderr, or an object with these facts."""
    show(f"{message(line, event, **facts)}\n".encode(errors="replace"), err=True)


def show_end(exit_code: int) -> None:
    """Print the last event, if messages are JSON."""
    if Messages.are_json:
        show_progress("", "end", exit_code=exit_code)


def discard(descriptor: int) -> None:
    """Send what is still buffered for this file descriptor, and all that follows, nowhere."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, descriptor)
    os.close(nowhere)


def unwritable(path: Path | str, error: OSError) -> str:
    """Return the message for a place that cannot be written."""
    reason = (error.strerror or str(error)).lower()
    return f"{path}: expected a place that can be written, received: {reason}"


def put(content: bytes, output: Path | None) -> None:
    """Write to a file, or to stdout; refuse if it cannot be written."""
    if output is None:
        show(content)
        return
    from workloads.data.cache import atomic_write

    try:
        if output.exists() and not output.is_file():  # a device or a pipe
            output.write_bytes(content)
        else:  # a full disk leaves no half of a report
            with atomic_write(Path(os.path.realpath(output))) as file:
                file.write(content)
    except OSError as error:
        raise Refusal(unwritable(output, error)) from error
    show_progress(f"wrote {output}")


def write(content: Document | Any, output: Path | None = None, *, markdown: bool = False) -> None:
    """Write a document as text (or Markdown), and other data as JSON, to a file or to stdout."""
    from orchestrator.report.document import Document
    from orchestrator.report.formats.text import to_markdown, to_text

    if not isinstance(content, Document):
        text = f"{json.dumps(content, indent=2)}\n"
    elif markdown:
        text = to_markdown(content)
    else:
        text = to_text(content, width(), colour=output is None and wants_colour())
    put(text.encode(errors="replace"), output)


def width() -> int:
    """Return the columns of the terminal, 100 where there is none; within 60 and 160."""
    return max(60, min(shutil.get_terminal_size((100, 24)).columns, 160))


def wants_colour(environ: Mapping[str, str] = os.environ) -> bool:
    """Return whether stdout may have colours: NO_COLOR decides, FORCE_COLOR, then the terminal."""
    if environ.get("NO_COLOR"):
        return False
    if environ.get("FORCE_COLOR"):
        return True
    return sys.stdout.isatty() and environ.get("TERM") != "dumb"


class _Terminal(io.TextIOWrapper):
    """A stream for messages that drops them once its reader is gone (`2>&1 | head`)."""

    def write(self, text: str, /) -> int:
        try:
            return super().write(text)
        except OSError:
            discard(self.fileno())
            return len(text)

    def flush(self) -> None:
        try:
            super().flush()
        except OSError:
            discard(self.fileno())


@contextlib.contextmanager
def quiet(log: Path) -> Iterator[Console]:
    """Send what this process and its children write to `log`; the console still reaches stderr.

    The logger `rnnsweep` writes to it as well, with times. The file descriptors are changed, not
    only Python's streams: Ray's and TensorFlow's native code writes to them directly. The folder of
    the log must exist.
    """
    from rich.console import Console

    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    kept = {number: os.dup(number) for number in (1, 2)}
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    logger, handler = logging.getLogger("rnnsweep"), logging.FileHandler(log, encoding="utf-8")
    handler.setFormatter(logging.Formatter("%(asctime)s  %(message)s", "%Y-%m-%d %H:%M:%S"))
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        with _Terminal(os.fdopen(os.dup(kept[2]), "wb"), encoding="utf-8") as terminal:
            for number in kept:
                os.dup2(descriptor, number)
            # Messages quote files, arms and errors of others: never markup.
            yield Console(file=terminal, highlight=False, markup=False, emoji=False)
    finally:
        logger.removeHandler(handler)
        handler.close()
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        for number, copy in kept.items():
            os.dup2(copy, number)
            os.close(copy)
        os.close(descriptor)


Command = TypeVar("Command", bound=Callable[..., Any])

MANY_TRIALS = 500
"""Trials beyond which a person at a terminal is asked before a sweep starts."""

FILE = click.Path(path_type=Path)
"""The type of an argument that is a path."""

spec_argument = click.argument("spec", type=FILE)


def _sweep_names(_: click.Context, __: click.Parameter, incomplete: str) -> list[str]:
    names = (one.name for one in sweep_home().glob("sweeps/*/"))
    return sorted(name for name in names if name.startswith(incomplete))


sweep_argument = functools.partial(click.argument, shell_complete=_sweep_names)
"""As `click.argument`, for the name of a sweep, which a shell completes."""


set_option = click.option("--set", "overrides", metavar="KEY=VALUE", multiple=True)

address_option = click.option("--address", metavar="ADDR")

same_code_option = click.option("--same-code", is_flag=True)

json_progress_option = click.option(
    "--json-progress", is_flag=True, expose_value=False, callback=Messages.choose
)


dashboard_option = functools.partial(click.option, "--address", metavar="URL")
"""The option of a cluster, by its dashboard."""

json_option = click.option("--format", "form", type=click.Choice(("text", "json")))


def in_a_folder(_: click.Context, __: click.Parameter, path: Path | None) -> Path | None:
    """Refuse a path in a folder that does not exist, before any work is done."""
    if path is not None and not path.parent.is_dir():
        raise click.BadParameter(
            f"{path}: expected a place that can be written, received: no folder {path.parent}. "
            "Make it first (mkdir -p)"
        )
    return path


def new_file_option(*names: str) -> Callable[[Command], Command]:
    """Return an option that takes the path of a file to write, in a folder that exists."""
    kind = click.Path(path_type=Path, dir_okay=False)
    return click.option(*names, type=kind, callback=in_a_folder)


def start_options(command: Callable[..., int]) -> Callable[..., int]:
    """Add the argument and the options that every start of a sweep has."""

    @functools.wraps(command)
    def start(*, overrides: Sequence[str], accept_provisional: bool, **options: Any) -> int:
        accepted = ["disturbed.accept_provisional=true"] if accept_provisional else []
        if options["take_over"]:
            text = "another driver that still runs this sweep stops at its next heartbeat, and"
            show(f"Warning: {text} what it has not recorded is run once more\n", err=True)
        return command(overrides=(*overrides, *accepted), **options)

    for option in (
        click.option("--accept-provisional", is_flag=True),
        click.option("-q", "--quiet", is_flag=True),
        click.option("-y", "--yes", is_flag=True),
        click.option("--retry-failed", is_flag=True),
        click.option("--take-over", is_flag=True),
        click.option("--fresh", is_flag=True),
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
    spec: Path | None,
    overrides: Sequence[str],
    *,
    address: str | None = None,
    home: str | None = None,
    retry_failed: bool = False,
) -> str:
    """Return the command that resumes a sweep, quoted for a shell."""
    words = ["rnnsweep", command, *([str(spec)] if spec else [])]
    words += ["--address", address] if address else []
    words += set_words(overrides)
    words += ["--home", home] if home else []
    words += ["--retry-failed"] if retry_failed else []
    return shlex.join(words)


def expect_confirmation(question: str, ask: Callable[[str], str]) -> None:
    """Ask by `ask`, which prints a prompt and returns the answer; refuse unless it is yes."""
    try:
        answer = ask(f"{question} [y/N] ")
    except EOFError:
        answer = ""
    if answer.strip().lower() not in ("y", "yes"):
        raise Refusal("nothing was run: it was not confirmed (--yes runs it without asking)")
