"""Arguments and options that several commands have."""

from __future__ import annotations

import functools
import json
import re
import sys
import textwrap
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import click

from orchestrator.cli.messages import choose_messages
from orchestrator.core.errors import Refusal
from orchestrator.core.shipped_sweeps import find_spec, shipped_sweeps, spec_as_typed
from orchestrator.core.start_command import StartCommand
from orchestrator.storage.home import sweep_home
from workloads.own_code import code_in

if TYPE_CHECKING:
    from orchestrator.spec import Price

CommandFunction = TypeVar("CommandFunction", bound=Callable[..., Any])

FILE = click.Path(path_type=Path)
"""The type of an argument that is a path."""


def find_spec_and_code(
    context: click.Context, _: click.Parameter, spec: Path | None
) -> Path | None:
    """Return the file of a spec; let the modules that it names be found next to it.

    They are found while the command runs.
    """
    if spec is None:
        return None
    file = find_spec(spec)
    context.with_resource(code_in(file.parent))
    return file


spec_argument = click.argument("spec", type=FILE, callback=find_spec_and_code)
"""The path of a spec, next to which the code of its workload may be, or a shipped sweep's name."""

_NAMES = textwrap.fill(", ".join(shipped_sweeps()), 76, break_on_hyphens=False)
SPEC_NOTES = f"""
\b
SPEC is a file, or the name of a sweep that comes with rnnsweep:
{textwrap.indent(_NAMES, "  ")}
"""
"""The end of the help of a command that takes a spec."""


def _sweep_names(_: click.Context, __: click.Parameter, incomplete: str) -> list[str]:
    names = (folder.name for folder in sweep_home().glob("sweeps/*/"))
    return sorted(name for name in names if name.startswith(incomplete))


sweep_argument = functools.partial(click.argument, shell_complete=_sweep_names)
"""As `click.argument`, for the name of a sweep, which a shell completes."""


def set_option(help: str) -> Callable[[CommandFunction], CommandFunction]:
    """Return the option `--set KEY=VALUE`, whose keys differ from command to command."""
    return click.option("--set", "overrides", metavar="KEY=VALUE", multiple=True, help=help)


spec_set_option = set_option(
    "Override a key of the spec, such as settings.epochs=2; may be repeated."
)

address_option = click.option(
    "--address",
    metavar="ADDR",
    help="Use the Ray cluster at this address. Default: this machine only.",
)

dashboard_option = functools.partial(
    click.option,
    "--address",
    metavar="URL",
    help="Address of the cluster's dashboard, such as http://10.0.0.5:8265.",
)
"""The option of a cluster, by its dashboard."""

same_code_option = click.option(
    "--same-code",
    is_flag=True,
    help="Resume even though the code of your own workload has changed.",
)


class Duration(click.ParamType[float]):
    """A time such as `30m`, as seconds."""

    name = "duration"
    _SECONDS: ClassVar[Mapping[str, float]] = {"s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Return the seconds; refuse a value without a unit, since `30` may mean either."""
        match = re.fullmatch(r"(\d+(?:\.\d+)?) ?(s|min|m|h)", str(value).strip())
        if match is None:
            self.fail(f"expected a time such as 90s, 30m or 2h; received {value}", param, ctx)
        return float(match[1]) * self._SECONDS[match[2]]


wait_quiet_option = click.option(
    "--wait-quiet",
    "wait_quiet_s",
    type=Duration(),
    metavar="TIME",
    help=("Wait up to TIME (such as 30m) for an idle machine; exit with code 3 if it stays busy."),
)

json_progress_option = click.option(
    "--json-progress",
    is_flag=True,
    expose_value=False,
    callback=choose_messages,
    help="Write progress and messages to stderr as lines of JSON, for scripts.",
)

json_option = click.option(
    "--format", "form", type=click.Choice(("text", "json")), help="Print text or JSON."
)


def in_a_folder(_: click.Context, __: click.Parameter, path: Path | None) -> Path | None:
    """Refuse a path in a folder that does not exist, before any work is done."""
    if path is not None and not path.parent.is_dir():
        raise click.BadParameter(
            f"{path}: there is no folder {path.parent}. Make it first (mkdir -p)"
        )
    return path


def new_file_option(name: str, help: str) -> Callable[[CommandFunction], CommandFunction]:
    """Return an option that takes the path of a file to write, in a folder that exists."""
    kind = click.Path(path_type=Path, dir_okay=False)
    return click.option(name, type=kind, callback=in_a_folder, help=help)


def former_option(name: str, instead: str) -> Callable[[CommandFunction], CommandFunction]:
    """Refuse a former option of a command with what replaces it."""

    def refuse(_: click.Context, __: click.Parameter, is_given: bool) -> None:
        if is_given:
            raise click.UsageError(f"No such option: {name}. Instead: {instead}")

    return click.option(name, is_flag=True, hidden=True, expose_value=False, callback=refuse)


class CurrentChoice(click.Choice[str]):
    """A choice that refuses former words with the words that replace them."""

    def __init__(self, choices: Sequence[str], former: Mapping[str, str]) -> None:
        super().__init__(choices)
        self.former = former

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the chosen word."""
        if value in self.former:
            self.fail(f"{value!r} has another name now: {self.former[value]}", param, ctx)
        return super().convert(value, param, ctx)


def output_options(formats: Mapping[str, str]) -> Callable[[CommandFunction], CommandFunction]:
    """Return the options `--format` and `--output` of a command with these formats.

    `formats` has the suffix of the files of each format; the first one is the default.
    """
    default = next(iter(formats))
    form = click.option(
        "--format",
        "form",
        type=click.Choice([*formats]),
        help=f"Write this format. Default: by the suffix of --output, otherwise {default}.",
    )
    kind = click.Path(path_type=Path)
    file = click.option(
        "-o", "--output", "path", type=kind, callback=in_a_folder, help="Write to this file."
    )
    return lambda function: form(file(function))


def usual_form(path: Path | None, formats: Mapping[str, str]) -> Any:
    """Return the format of the file's suffix, the first one if it has none; refuse others."""
    if path is None or not path.suffix:
        return next(iter(formats))
    suffix = {".htm": ".html", ".yml": ".yaml"}.get(path.suffix.lower(), path.suffix.lower())
    for form, its_suffix in formats.items():
        if suffix == its_suffix:
            return form
    raise Refusal(
        f"{path}: expected a name that ends in {', '.join(formats.values())}; received "
        f"{path.suffix}. Rename it, or add --format"
    )


def expect_no_terminal(form: str, path: Path | None, sweep: str) -> None:
    """Refuse to write a page or a binary table to a terminal."""
    if form in ("html", "parquet") and path is None and sys.stdout.isatty():
        name = sweep.replace("#", "-").replace("/", "-")
        raise Refusal(f"--format {form} cannot be printed to a terminal. Add -o {name}.{form}")


_START_OPTIONS: Sequence[Callable[[Callable[..., int]], Callable[..., int]]] = (
    click.option("-q", "--quiet", is_flag=True, help="Print only the report, warnings and errors."),
    click.option("--retry-failed", is_flag=True, help="Run failed trials again."),
    click.option(
        "--take-over",
        is_flag=True,
        help="Take the sweep over from another machine, such as a lost one. If the sweep still runs"
        " there, it stops; trials that were not recorded run again.",
    ),
    click.option("--fresh", is_flag=True, help="Start a new generation; keep existing trials."),
    same_code_option,
    spec_set_option,
    spec_argument,
)


def start_options(function: Callable[..., int]) -> Callable[..., int]:
    """Add the argument and the options that every start of a sweep has."""
    for option in _START_OPTIONS:
        function = option(function)
    return function


def set_words(overrides: Sequence[str]) -> list[str]:
    """Return the overrides as they are typed: `--set KEY=VALUE` for each."""
    return [word for override in overrides for word in ("--set", override)]


def prices_override(prices: Sequence[Price]) -> str:
    """Return the override that has these prices, for a command that does not have their file."""
    table = [price.model_dump(mode="json", exclude_unset=True) for price in prices]
    return f"prices={json.dumps(table)}"


def start_command(
    command: str,
    spec: Path,
    overrides: Sequence[str],
    *,
    address: str | None = None,
    home: str | None = None,
) -> StartCommand:
    """Return the start of a sweep as it was typed, without what concerns this start alone."""
    words = ["rnnsweep", command, spec_as_typed(spec)]
    words += ["--address", address] if address else []
    kept = ["--home", home] if home else []
    return StartCommand(tuple(words), tuple(overrides), tuple(kept))


def _read_start(_: click.Context, __: click.Parameter, text: str | None) -> StartCommand | None:
    return None if text is None else StartCommand.from_json(text)


typed_as_option = click.option("--typed-as", "typed", callback=_read_start, hidden=True)
"""The start that a person typed, as JSON, for a command that another one begins."""
