"""The command line: commands, messages and exit codes. Results go to stdout, all else to stderr.

Exit codes: 0 complete; 1 complete with failed trials; 2 the spec or the command line is wrong
(nothing was run); 3 stopped and resumable. Heavy imports wait until a command needs them, so
that `--help` answers at once.
"""

# ruff: noqa: PLC0415

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import os
import shlex
import shutil
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Literal, ParamSpec

import click

from orchestrator import __version__
from orchestrator.home import sweep_home
from orchestrator.refusal import Refusal

if TYPE_CHECKING:
    from rich.console import Console

    from orchestrator.plan import Plan
    from orchestrator.progress import PlainLines
    from orchestrator.sweep import Ended

COMPLETE, WITH_FAILURES, REFUSED, STOPPED = 0, 1, 2, 3
"""Exit codes."""

_LARGE = 500
"""Trials beyond which a person at a terminal is asked before a sweep starts."""

_Parameters = ParamSpec("_Parameters")
_Format = Literal["text", "markdown", "json", "csv"]
_SUFFIXES: dict[str, _Format] = {".md": "markdown", ".json": "json", ".csv": "csv"}


class _Refused(click.ClickException):
    """What the user has to change, without a traceback."""

    exit_code = REFUSED

    def show(self, file: IO[Any] | None = None) -> None:
        """Say it, if anybody still reads."""
        _show(f"Error: {self.format_message()}\n", err=True)


def _refusing(command: Callable[_Parameters, int | None]) -> Callable[_Parameters, None]:
    """Turn what a user can act on into a message and exit code 2; exit with the command's code."""

    @functools.wraps(command)
    def wrapped(*args: _Parameters.args, **kwargs: _Parameters.kwargs) -> None:
        try:
            code = command(*args, **kwargs)
        except BrokenPipeError:  # the reader of a pipe has seen enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            code = COMPLETE
        except KeyboardInterrupt:
            _show("Stopped.\n", err=True)
            code = STOPPED
        except Exception as error:
            if isinstance(error, _refusals()):
                raise _Refused(str(error)) from error
            _show(traceback.format_exc(), err=True)  # Python's exit code for it has a meaning here
            code = REFUSED
        raise SystemExit(code or COMPLETE)

    return wrapped


def _refusals() -> tuple[type[Exception], ...]:
    """Errors whose message tells a user what to do."""
    from orchestrator.cluster import ClusterError
    from orchestrator.journal import JournalError
    from orchestrator.report.baseline import BaselineError
    from orchestrator.spec import SpecError
    from orchestrator.tracking.errors import LeaseHeld, NotRecorded, SweepNotFound, TrackingError
    from workloads.failures import DataError

    return (
        Refusal,
        SpecError,
        BaselineError,
        ClusterError,
        DataError,
        JournalError,
        LeaseHeld,
        NotRecorded,
        SweepNotFound,
        TrackingError,
    )


_spec_argument = click.argument("spec", type=click.Path(path_type=Path))
_set_option = click.option(
    "--set",
    "overrides",
    metavar="KEY=VALUE",
    multiple=True,
    help="Override a key of the spec, such as settings.epochs=2; may be repeated.",
)
_address_option = click.option(
    "--address",
    metavar="ADDR",
    help="Address of a running Ray cluster; without it, this machine alone is used.",
)


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="rnnsweep")
def main() -> None:
    """Sweep recurrent networks over hardware and implementations, and compare them."""


@main.command()
@_spec_argument
@_set_option
@_address_option
@click.option("--fresh", is_flag=True, help="Start anew, beside the trials that are there.")
@click.option("--retry-failed", is_flag=True, help="Do failed trials again.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask before a large sweep.")
@_refusing
def run(
    spec: Path,
    overrides: tuple[str, ...],
    address: str | None,
    fresh: bool,
    retry_failed: bool,
    yes: bool,
) -> int:
    """Run the sweep of a SPEC file, or what is missing of it, and print its report."""
    from orchestrator.home import SweepFolder
    from orchestrator.output import quiet
    from orchestrator.progress import make_view
    from orchestrator.spec import load
    from orchestrator.stopping import Stopped, StopSignal
    from orchestrator.sweep import RunOptions, run_sweep
    from orchestrator.tracking import tracking_uri

    loaded = load(spec, overrides)
    home = sweep_home()
    options = RunOptions(home, tracking_uri(home, os.environ), address, fresh, retry_failed)
    folder = SweepFolder(home, loaded.name)
    folder.make()
    log = folder.log
    again = shlex.join(
        ["rnnsweep", "run", str(spec)]
        + [word for each in overrides for word in ("--set", each)]
        + (["--address", address] if address else [])
        + (["--retry-failed"] if retry_failed else [])
    )
    begun = False
    try:
        with quiet(log) as console:

            def stopping() -> None:
                console.print("Stopping; a second Ctrl-C stops at once.")

            def confirm(plan: Plan, missing: int) -> None:
                console.print(_announcement(plan, missing, loaded.name, options.tracking_uri, log))
                if missing > _LARGE and not yes and console.is_terminal:
                    with stop.at_once():
                        _expect_yes(console, missing)

            def view(plan: Plan) -> PlainLines:
                nonlocal begun
                begun = True
                return make_view(console, plan)

            with StopSignal(stopping) as stop:
                ended = run_sweep(loaded, options, stop=stop, view=view, confirm=confirm)
        return _conclude(ended, loaded.baseline, again, begun=begun)
    except Stopped:
        _show(f"Stopped before a trial was started. To go on: {again}\n", err=True)
        return STOPPED
    except Exception as error:  # noqa: BLE001  (Python's exit code for it has a meaning here)
        return _explain(error, log, again if begun else None)


def _announcement(plan: Plan, missing: int, name: str, tracking_uri: str, log: Path) -> str:
    """What a person reads before a sweep starts."""
    from orchestrator.plan import describe_plan
    from orchestrator.tracking.place import shown

    lines = [describe_plan(plan, name)]
    if missing < plan.trials:
        lines.append(f"{plan.trials - missing} of {plan.trials} trials are done")
    lines.append(f"trials go to {shown(tracking_uri)}; other output to {log}")
    return "\n".join(lines)


def _conclude(ended: Ended, baseline: str | None, again: str, *, begun: bool) -> int:
    """Print how a start of a sweep ended; the exit code."""
    from orchestrator.report.rendering import render, summarise

    if ended.refused:
        count = len(ended.refused)
        _show(
            f"Warning: {count} finished trial{'s are' if count > 1 else ' is'} safe in the journal "
            "and not in the report, because MLflow does not take "
            f"{'them' if count > 1 else 'it'}: {next(iter(ended.refused.values()))}\n",
            err=True,
        )
    if ended.stopped:
        done = len(ended.record.trials)
        because = f", because {ended.stopped.reason}" if ended.stopped.reason else ""
        _show(
            f"Stopped{because}: {done} of {ended.record.expected_trials} trials are done and "
            f"recorded. To go on: {again}\n",
            err=True,
        )
        return STOPPED
    summary = summarise(ended.record, baseline)
    _show(render(summary, "text", width=_width()))
    failed = sum(trial.status == "failed" for trial in ended.record.trials)
    if not begun:
        _show("Every trial had been done already; nothing was run.\n", err=True)
    if failed:
        _show(
            f"{failed} trials failed; the output of each is the artifact trainer_output.txt of its "
            "MLflow run. --retry-failed does them again.\n",
            err=True,
        )
    bad = failed + sum(trial.status == "wrong_kernel" for trial in ended.record.trials)
    return WITH_FAILURES if bad or ended.refused else COMPLETE


def _explain(error: Exception, log: Path, again: str | None) -> int:
    """Say what ended a start of a sweep and, once anything was run, how to go on (`again`)."""
    if isinstance(error, _refusals()):
        if again is None:
            raise error
        _show(f"Stopped: {error}\nTo go on: {again}\n", err=True)
        return STOPPED
    with contextlib.suppress(OSError), log.open("a", encoding="utf-8", errors="replace") as file:
        traceback.print_exception(error, file=file)
    text = " ".join(f"{type(error).__name__}: {error}".split())
    where = f"an unexpected error, {text} (its traceback is at the end of {log})"
    if again is None:
        _show(f"Error: nothing was run, because of {where}\n", err=True)
        return REFUSED
    _show(f"Stopped by {where}. To go on: {again}\n", err=True)
    return STOPPED


@main.command()
@_spec_argument
@_set_option
@_address_option
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text")
@_refusing
def plan(spec: Path, overrides: tuple[str, ...], address: str | None, form: str) -> None:
    """Say what would run where, what cannot and why; run nothing."""
    from orchestrator import cluster
    from orchestrator.forecast import forecast
    from orchestrator.hardware import classify
    from orchestrator.home import SweepFolder
    from orchestrator.plan import describe_plan, make_plan
    from orchestrator.progress import duration
    from orchestrator.spec import load
    from orchestrator.sweep import expect_runnable

    loaded = load(spec, overrides)
    with contextlib.ExitStack() as stack:
        nodes = cluster.this_machine()
        if address is not None:
            nodes = stack.enter_context(cluster.connect(address))
        laid = make_plan(loaded, classify(nodes))
    ahead = forecast(laid, SweepFolder(sweep_home(), loaded.name))
    if form == "json":
        body = {"format": "rnnsweep-plan", "version": 1, **laid.as_json()}
        click.echo(json.dumps({**body, **dataclasses.asdict(ahead)}, indent=2))
    else:
        click.echo(describe_plan(laid, loaded.name))
    expect_runnable(loaded, laid)
    if form == "json":
        return
    if ahead.remaining_s is None:
        click.echo("how long it takes is known once each arm has run a trial")
    else:
        click.echo(
            f"{ahead.done} trials are done; the other {ahead.remaining} may take "
            f"{duration(ahead.remaining_s)}, judged by these"
        )


@main.command()
@click.argument("sweep", required=False)
@_refusing
def status(sweep: str | None) -> None:
    """Say how far sweeps of this home are; SWEEP narrows it to one."""
    from orchestrator.status import describe_sweeps

    click.echo(describe_sweeps(sweep_home(), sweep), nl=False)


@main.command()
@click.argument("sweep")
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "markdown", "json", "csv"]),
    help="By default as the output file's name says, else text.",
)
@click.option("--baseline", metavar="ARM", help="Compare with this implementation or arm.")
@click.option(
    "--generation",
    type=click.IntRange(min=1),
    help="An earlier --fresh, counted from 1.",
)
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Write to this file.")
@_refusing
def report(
    sweep: str,
    form: _Format | None,
    baseline: str | None,
    generation: int | None,
    output: Path | None,
) -> None:
    """Report on a SWEEP, as its tracking store has it."""
    from orchestrator.report import rendering
    from orchestrator.tracking import tracking_uri
    from orchestrator.tracking.reading import read_sweep

    record = read_sweep(tracking_uri(sweep_home(), os.environ), sweep, generation)
    if form is None:
        form = _SUFFIXES.get(output.suffix, "text") if output else "text"
    text = rendering.render(rendering.summarise(record, baseline), form, width=_width())
    if output is None:
        click.echo(text, nl=False)
    else:
        output.parent.mkdir(parents=True, exist_ok=True)
        output.write_text(text, encoding="utf-8")
        click.echo(f"wrote {output}", err=True)


@main.command()
@_address_option
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text")
@_refusing
def hardware(address: str | None, form: str) -> None:
    """Say what the cluster, or this machine, is made of."""
    from orchestrator import cluster
    from orchestrator.hardware import classify, describe_hardware, hardware_json

    with contextlib.ExitStack() as stack:
        nodes = cluster.this_machine()
        if address is not None:
            nodes = stack.enter_context(cluster.connect(address))
        classes = classify(nodes)
    if form == "json":
        click.echo(json.dumps(hardware_json(classes), indent=2))
    else:
        click.echo(describe_hardware(classes))


@main.command()
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text")
@_refusing
def workloads(form: str) -> None:
    """List workloads, their settings, implementations, and what each can run here."""
    from orchestrator import catalogue, cluster
    from orchestrator.hardware import classify

    classes = classify(cluster.this_machine())
    if form == "json":
        click.echo(json.dumps(catalogue.as_json(classes), indent=2))
    else:
        click.echo(catalogue.as_text(classes), nl=False)


@main.command()
@click.option("--port", type=click.IntRange(1, 65535), default=5000, show_default=True)
@click.option("--host", default="127.0.0.1", show_default=True)
@_refusing
def ui(port: int, host: str) -> int:
    """Serve the MLflow UI on this home's store, or say where the tracking server is."""
    from orchestrator.tracking import tracking_uri
    from orchestrator.ui import serve

    return serve(tracking_uri(sweep_home(), os.environ), sweep_home(), host=host, port=port)


def _expect_yes(console: Console, missing: int) -> None:
    """Ask whether to run so many trials; anything but a yes declines."""
    try:
        answer = console.input(f"Run {missing} trials? [y/N] ", markup=False)
    except EOFError:
        answer = ""
    if answer.strip().lower() not in ("y", "yes"):
        raise Refusal("nothing was run: it was not confirmed (--yes runs it without asking)")


def _show(text: str, *, err: bool = False) -> None:
    """Print; a reader who has seen enough (`| head`) changes nothing about how it ends."""
    try:
        click.echo(text, nl=False, err=err)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2 if err else 1)


def _width() -> int:
    """The terminal's columns, 100 elsewhere; never so few that a table cannot stand."""
    return max(60, min(shutil.get_terminal_size((100, 24)).columns, 160))
