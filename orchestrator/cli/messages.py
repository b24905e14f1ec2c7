"""What a command prints: results on stdout, messages on stderr, as text or as JSON."""

import datetime
import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from orchestrator.core.errors import Refusal, printable, refusal_of

_KEY = "rnnsweep.messages"  # of click's context, which a command has to itself


@dataclass(frozen=True, slots=True)
class Messages:
    """The form of all that a command writes to stderr: text, or JSON with `--json-progress`."""

    are_json: bool = False

    def line(self, text: str, event: str = "message", **facts: Any) -> str:
        """Return a message in this form: a line, or an object as in `progress.schema.json`."""
        if not self.are_json:
            return printable(text)
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")
        head = {"format": "rnnsweep-progress", "version": 2, "event": event, "time": now}
        return json.dumps({**head, "text": text, **facts}, allow_nan=False)


AS_TEXT = Messages()


def choose_messages(context: click.Context, _: click.Parameter, are_json: bool) -> None:
    """Take the form of the messages of a command from its option `--json-progress`."""
    context.meta[_KEY] = Messages(are_json)


def messages() -> Messages:
    """Return the form of the messages of the command that runs in this thread."""
    context = click.get_current_context(silent=True)
    form: Messages = context.meta.get(_KEY, AS_TEXT) if context is not None else AS_TEXT
    return form


def show(text: str | bytes, *, err: bool = False) -> None:
    """Print text: results as they are, of messages no control characters.

    A full disk is refused; a closed pipe (`| head`) is no error.
    """
    if err and isinstance(text, str) and text:
        text = f"{messages().line(text.rstrip())}\n" if messages().are_json else printable(text)
    try:
        click.echo(text, nl=False, err=err, color=None if err else wants_colour())
    except BrokenPipeError:
        discard(2 if err else 1)
    except OSError as error:
        discard(2 if err else 1)  # the rest of the buffer is lost as well
        if not err:
            raise unwritable("stdout", error) from error


def show_progress(line: str, event: str = "message", **facts: Any) -> None:
    """Print a line on stderr, or an object with these facts."""
    show(f"{messages().line(line, event, **facts)}\n".encode(errors="replace"), err=True)


def show_end(exit_code: int) -> None:
    """Print the last event, if messages are JSON."""
    if messages().are_json:
        show_progress("", "end", exit_code=exit_code)


def discard(descriptor: int) -> None:
    """Send what is still buffered for this file descriptor, and all that follows, nowhere."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, descriptor)
    os.close(nowhere)


def unwritable(path: Path | str, error: OSError) -> Refusal:
    """Return the refusal of a path that cannot be written."""
    reason = (error.strerror or str(error)).lower()
    return refusal_of(error, path) or Refusal(f"cannot write to {path}: {reason}")


def wants_colour() -> bool:
    """Return whether stdout may have colours: NO_COLOR decides, FORCE_COLOR, then the terminal."""
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
