"""How a command ends: its exit code, refusals without a traceback, and reports of bugs."""

# ruff: noqa: PLC0415

from __future__ import annotations

import contextlib
import functools
import os
import signal
import sys
import tempfile
import tomllib
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, ParamSpec

import click

from orchestrator import __version__
from orchestrator.cli.output import Messages, discard, show, show_end, unwritable
from orchestrator.core.errors import Refusal
from workloads.failures import DataError

if TYPE_CHECKING:
    from orchestrator.core.trial import FinishedTrial

COMPLETE, WITH_FAILURES, REFUSED, STOPPED, INTERNAL_ERROR = 0, 1, 2, 3, 70
"""Exit codes; the last is EX_SOFTWARE of sysexits.h."""

REFUSALS = (Refusal, DataError)
"""The errors that a user can act on."""

_HELP = tomllib.loads(Path(__file__).with_name("commands.toml").read_text(encoding="utf-8"))
EXIT_CODES_HELP, _OPTIONS = _HELP.pop("exit_codes"), _HELP.pop("options")

_Parameters = ParamSpec("_Parameters")


class CommandGroup(click.Group):
    """All commands; what click prints by itself (`--help`, `--version`) may meet a full disk."""

    groups: ClassVar[Mapping[str, Mapping[str, Mapping[str, Any]]]] = _HELP
    """The title of each group, and its commands, each with the texts of its help."""

    def add_command(self, cmd: click.Command, name: str | None = None) -> None:
        """Add a command, which then exits with the code that it returns, and has its texts."""
        if cmd.callback is not None:
            cmd.callback = _with_exit_code(cmd.callback)
        (about,) = (group[n] for group in self.groups.values() for n in group if n == cmd.name)
        texts = _OPTIONS | about.get("options", {})
        for option in cmd.params:
            if isinstance(option, click.Option) and not option.hidden:
                option.help = texts[option.opts[-1].removeprefix("--")]
        examples = "".join(f"\n  {line}" for line in about["examples"])
        cmd.epilog = f"\b\nExamples:{examples}\n\n{about.get('notes', '')}"
        super().add_command(cmd, name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands by group."""
        for title, names in self.groups.items():
            with formatter.section(title):
                rows = [(name, self.commands[name].get_short_help_str(100)) for name in names]
                formatter.write_dl(rows)

    def main(self, *args: Any, **kwargs: Any) -> Any:
        """Run a command; errors of the commands themselves are handled by `_with_exit_code`."""
        Messages.are_json = False
        try:
            return super().main(*args, **kwargs)
        except OSError as error:
            discard(1)
            show(f"Error: {unwritable('stdout', error)}\n", err=True)
            sys.exit(REFUSED)
        except Exception as error:  # noqa: BLE001  (a bug, whose exit code must be ours)
            sys.exit(internal_error(error))


def _with_exit_code(command: Callable[_Parameters, int | None]) -> Callable[_Parameters, None]:
    """Exit with the code that the command returns, or with that of the error that it raises."""

    @functools.wraps(command)
    def wrapped(*args: _Parameters.args, **kwargs: _Parameters.kwargs) -> None:
        try:
            code = command(*args, **kwargs) or COMPLETE
        except BrokenPipeError:  # the reader of a pipe has seen enough
            discard(1)
            code = COMPLETE
        except KeyboardInterrupt:
            show("Stopped.\n", err=True)
            code = STOPPED
        except (click.exceptions.Exit, click.ClickException):
            raise
        except REFUSALS as error:
            show(f"Error: {error}\n", err=True)
            code = STOPPED if isinstance(error, Refusal) and error.is_away else REFUSED
        except Exception as error:  # noqa: BLE001  (a bug, whose exit code must be ours)
            code = internal_error(error)
        show_end(code)
        from orchestrator.cluster.ray_process import has_waiting_threads

        if has_waiting_threads():  # for a lost cluster: Python would wait for them, too
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
        raise SystemExit(code)

    return wrapped


def code_of(trials: Iterable[FinishedTrial]) -> int:
    """Return the exit code of a complete sweep with these trials; a pruned one is no failure."""
    failed = any(trial.status in ("failed", "wrong_kernel") for trial in trials)
    return WITH_FAILURES if failed else COMPLETE


def internal_error(error: Exception, log: Path | None = None, *, head: str = "Error") -> int:
    """Keep the traceback of a bug in the log, or a new file; ask for a report, and return 70."""
    text = " ".join(f"{type(error).__name__}: {error}".split())
    place = _keep_traceback(error, log)
    show(f"{head}: internal error, {text}. Please report this bug, with {place}\n", err=True)
    return INTERNAL_ERROR


def _keep_traceback(error: Exception, log: Path | None) -> str:
    """Write the traceback; return where it is, or itself where no file can be written."""
    lines = [
        f"rnnsweep {__version__}, Python {sys.version.split()[0]}, {' '.join(sys.argv[1:2])}\n",
        *traceback.format_exception(error),
    ]
    try:
        path = log
        if path is None:
            number, name = tempfile.mkstemp(prefix="rnnsweep-error-", suffix=".txt")
            os.close(number)
            path = Path(name)
        with path.open("a", encoding="utf-8", errors="replace") as file:
            file.writelines(lines)
    except OSError:
        return "this traceback:\n" + "".join(lines).rstrip()
    return f"the traceback {'in' if log is None else 'at the end of'} {path}"


@contextlib.contextmanager
def interrupted_by(*signals: signal.Signals) -> Iterator[None]:
    """Handle these signals like Ctrl-C within the block, so that child processes are ended."""
    before = {number: signal.signal(number, signal.default_int_handler) for number in signals}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
