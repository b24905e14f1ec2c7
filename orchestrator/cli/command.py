"""How a command is made: its help, and its end with an exit code instead of a traceback."""

# ruff: noqa: PLC0415

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ParamSpec

import click

from orchestrator.cli.exit_codes import (
    COMPLETE,
    EXIT_STOPPED,
    REFUSALS,
    as_refusal,
    code_of_refusal,
    internal_error,
)
from orchestrator.cli.messages import discard, show, show_end, unwritable
from orchestrator.core.caller import called_by_command

_Parameters = ParamSpec("_Parameters")


class CommandWithExamples(click.Command):
    """A command whose help ends with `examples`, lines to type."""

    examples: Sequence[str] = ()


def command(
    *, examples: Sequence[str], notes: str = ""
) -> Callable[[Callable[..., int | None]], CommandWithExamples]:
    """Return a decorator that makes a command of a function, which returns its exit code.

    The name of the function is the command's name, and its docstring the first part of the help.
    `examples` are lines to type, and `notes` a text for the end of the help.
    """
    lines = "".join(f"\n  {line}" for line in examples)
    epilog = f"\b\nExamples:{lines}\n\n{notes}"

    def decorate(function: Callable[..., int | None]) -> CommandWithExamples:
        make = click.command(cls=CommandWithExamples, epilog=epilog)
        made = make(_with_exit_code(function))
        made.examples = tuple(examples)
        return made

    return decorate


class CommandGroup(click.Group):
    """All commands, listed by group; what click prints by itself may meet a full disk.

    `groups` has the commands by the title of their group, in the order of the help. `former` says
    what replaces a command of an earlier release.
    """

    def __init__(
        self,
        *args: Any,
        groups: Mapping[str, Sequence[CommandWithExamples]],
        former: Mapping[str, str],
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self.groups, self._former = groups, former
        for commands in groups.values():
            for member in commands:
                self.add_command(member)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command of these words; refuse a former one with what replaces it."""
        if args and args[0] in self._former:
            ctx.fail(f"No such command '{args[0]}'. Instead: {self._former[args[0]]}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands by group."""
        for title, commands in self.groups.items():
            with formatter.section(title):
                formatter.write_dl(
                    [(member.name or "", member.get_short_help_str(100)) for member in commands]
                )

    def main(self, *args: Any, **kwargs: Any) -> Any:
        """Run a command; errors of the commands themselves are handled by `_with_exit_code`."""
        try:
            return super().main(*args, **kwargs)
        except OSError as error:
            discard(1)
            refusal = unwritable("stdout", error)
            show(f"Error: {refusal}\n", err=True)
            sys.exit(code_of_refusal(refusal))
        except Exception as error:  # noqa: BLE001  (a bug, whose exit code must be ours)
            sys.exit(internal_error(error))


def _with_exit_code(function: Callable[_Parameters, int | None]) -> Callable[_Parameters, None]:
    """Exit with the code that the function returns, or with the code of an error that it raises."""

    @functools.wraps(function)
    @called_by_command()
    def wrapped(*args: _Parameters.args, **kwargs: _Parameters.kwargs) -> None:
        try:
            code = function(*args, **kwargs) or COMPLETE
        except BrokenPipeError:  # the reader of a pipe has seen enough
            discard(1)
            code = COMPLETE
        except KeyboardInterrupt:
            show("Stopped.\n", err=True)
            code = EXIT_STOPPED
        except (click.exceptions.Exit, click.ClickException):
            raise
        except Exception as raised:  # noqa: BLE001  (a bug has an exit code of ours, too)
            error = as_refusal(raised)
            if isinstance(error, REFUSALS):
                show(f"Error: {error}\n", err=True)
                code = code_of_refusal(error)
            else:
                code = internal_error(error)
        show_end(code)
        from orchestrator.cluster.ray_process import has_waiting_threads

        if has_waiting_threads():  # for a lost cluster: Python would wait for them, too
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
        raise SystemExit(code)

    return wrapped
