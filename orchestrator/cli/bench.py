"""`rnnsweep bench`: the speed of implementations on this machine, without a spec."""

# ruff: noqa: PLC0415

from __future__ import annotations

import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from orchestrator.cli import options
from orchestrator.cli.command import command
from orchestrator.cli.exit_codes import (
    COMPLETE,
    EXIT_STOPPED,
    WITH_FAILURES,
    held_back,
    interrupted_by,
)
from orchestrator.cli.messages import messages, show_progress
from orchestrator.cli.output import width, write, write_output
from orchestrator.core.text import duration
from workloads.protocol import TimedWork

if TYPE_CHECKING:
    from rich.text import Text

    from orchestrator.diagnostics.bench import Bench
    from orchestrator.hardware import Look, OtherProcesses

_NOTES = """
The first implementation is the baseline. The implementations take turns in short slices. Each round
starts with new models. The time never ends a bench before 3 rounds, and a verdict needs 6.
NAME+again times an implementation twice, which shows the noise. The kernel that ran is proven.
Nothing is stored. The exit code is 1 if an implementation fails.
"""


@command(
    examples=[
        "rnnsweep bench tensorflow/portable torch/fused --set settings.units=64",
        "rnnsweep bench tensorflow/portable tensorflow/portable+again torch/fused --time 3min",
        "rnnsweep bench tensorflow/portable torch/fused --model mine:build --data mine:load",
    ],
    notes=_NOTES,
)
@click.argument("implementations", metavar="IMPLEMENTATION...", nargs=-1, required=True)
@click.option(
    "--workload",
    help="A built-in workload (default: image_rows), or MODULE:FUNCTION.",
)
@click.option(
    "--model",
    metavar="MODULE:BUILD",
    help="A function that takes the settings and returns your own model.",
)
@click.option(
    "--data",
    metavar="MODULE:LOAD",
    help="A function that loads the data of your model. Without it, the data are random.",
)
@options.set_option(
    "Change a setting of the workload, such as settings.units=128; may be repeated."
)
@click.option(
    "--hardware", "device", default="cpu", show_default=True, help="cpu, gpu, or the name of a GPU."
)
@click.option(
    "--of",
    "timed_work",
    type=click.Choice(["train", "predict"]),
    default="train",
    show_default=True,
    help="Time training steps, or predictions of whole batches.",
)
@click.option(
    "--time",
    "time_s",
    type=options.Duration(),
    metavar="TIME",
    help=(
        "Stop after this time; loading and compiling do not count.  [default: 90s without --rounds]"
    ),
)
@click.option(
    "--rounds",
    type=click.IntRange(min=1, max=1000),
    help="Stop after this number of rounds; with --time, whichever comes first.",
)
@options.new_file_option(
    "--export-json",
    help="Also write the results to this file, as `report --format json` does.",
)
@options.wait_quiet_option
@options.json_progress_option
def bench(
    implementations: tuple[str, ...],
    *,
    overrides: tuple[str, ...],
    device: str,
    timed_work: TimedWork,
    time_s: float | None,
    rounds: int | None,
    export_json: Path | None,
    **named: Any,
) -> int:
    """Compare the speed of IMPLEMENTATIONs on this machine."""
    from orchestrator.analysis.summary import summarise
    from orchestrator.diagnostics import bench as benches
    from orchestrator.diagnostics.bench_document import as_document, program_of_fastest
    from orchestrator.diagnostics.bench_schedule import USUAL_S, Budget
    from orchestrator.hardware import Look
    from orchestrator.report.formats.json_format import summary_json

    look = Look()  # its seconds pass meanwhile
    timed = {key: named[key] for key in ("workload", "model", "data") if named[key] is not None}
    if "data" in timed and "model" not in timed:
        raise click.UsageError("--data needs --model")
    if "model" in timed and "workload" in timed:
        raise click.UsageError("--workload and --model exclude each other")
    if "model" in timed:  # takes seconds
        show_progress(f"building {timed['model']} on each backend")
    usual_s = USUAL_S if rounds is None else None
    made = benches.make_bench(
        implementations,
        timed or {"workload": benches.DEFAULT_WORKLOAD},
        overrides,
        device,
        Budget(usual_s if time_s is None else time_s, rounds),
        timed_work,
        show_progress,
    )
    _show_estimate(made, made.describe())
    _wait_until_quiet(look, made, named["wait_quiet_s"])
    with interrupted_by(signal.SIGTERM):
        was_interrupted = _run_until_interrupted(made)
        with held_back(signal.SIGINT, signal.SIGTERM):  # nothing that was measured is lost
            summary = summarise(made.record())
            write(as_document(summary, made.schedule))
            if program := program_of_fastest(summary):
                write_output(f"\nTo use the fastest one:\n\n{program}".encode(), None)
            if export_json is not None:
                write_output(summary_json(summary).encode(), export_json)
    if was_interrupted:
        return EXIT_STOPPED
    return WITH_FAILURES if summary.excluded else COMPLETE


def _show_estimate(made: Bench, text: str) -> None:
    schedule = made.schedule
    show_progress(
        text,
        "estimate",
        seconds=schedule.budget.seconds,
        rounds=schedule.budget.rounds,
        load_seconds=schedule.load_s,
        seconds_left=schedule.seconds_left(),
    )


def _run_until_interrupted(made: Bench) -> bool:
    """Run the rounds; at Ctrl-C keep the whole ones, if any. Return whether it was interrupted."""
    try:
        _run(made)
    except KeyboardInterrupt:
        made.rounds = made.rounds[: len(made.schedule.turns)]
        if not made.rounds:
            raise
        return True
    return False


def _run(made: Bench) -> None:
    """Run the rounds, and show them on stderr: live on a terminal, else a line as each begins."""
    from rich.console import Console
    from rich.live import Live

    console = Console(stderr=True)
    if console.is_terminal and not messages().are_json:
        with Live(console=console, auto_refresh=False, transient=True) as live:
            made.run(lambda doing: live.update(_drawn(made, doing), refresh=True))
    else:
        made.run(_RoundLines(made).show)


class _RoundLines:
    """Prints a line as each round begins, and the estimate after the first slices."""

    def __init__(self, made: Bench) -> None:
        self._made = made
        self._rounds_shown, self._is_estimated = 0, False

    def show(self, _doing: str) -> None:
        """Print what is new since the last call."""
        schedule, begun = self._made.schedule, len(self._made.rounds)
        left_s = schedule.seconds_left()
        if begun > self._rounds_shown:
            self._rounds_shown = begun
            facts = {"round": begun, "rounds": schedule.budget.rounds, "seconds_left": left_s}
            show_progress(_round_text(self._made), "round", **facts)
        elif schedule.load_s is not None and left_s is not None and not self._is_estimated:
            self._is_estimated = True
            loaded = f"loading and compiling took {duration(schedule.load_s)}"
            _show_estimate(self._made, f"{loaded}; about {duration(left_s)} left")


def _drawn(made: Bench, doing: str) -> Text:
    """Return the results so far for a terminal, below the round that runs."""
    from rich.text import Text

    from orchestrator.analysis.summary import summarise
    from orchestrator.diagnostics.bench_document import as_document
    from orchestrator.report.formats.text import to_text

    document = as_document(summarise(made.record()))
    head = f"{_round_text(made)}{f': {doing}' if doing else ''}"
    return Text.from_ansi(f"{head}\n{to_text(document, width(), colour=True)}")


def _round_text(made: Bench) -> str:
    rounds, left_s = made.schedule.budget.rounds, made.schedule.seconds_left()
    text = f"round {len(made.rounds)}{f' of {rounds}' if rounds else ''}"
    return text if left_s is None else f"{text}, about {duration(left_s)} left"


def _wait_until_quiet(look: Look, made: Bench, wait_s: float | None) -> None:
    """Tell what other processes take of the CPUs if it is much; with `wait_s` wait so long."""
    from orchestrator.cluster import busy_nodes
    from orchestrator.hardware import observe_other_processes

    limit_pct = made.spec.disturbance_limits.others_cpu_pct
    host = made.plan.possible[0].hardware.nodes[0].profile.hostname

    def seen(work: OtherProcesses | None) -> dict[str, OtherProcesses]:
        return {host: work} if work is not None else {}

    busy = busy_nodes.describe_busy(seen(look.result()), limit_pct)
    if busy is None:
        return
    show_progress(busy_nodes.start_line(busy, waits=wait_s is not None))
    if wait_s is not None:
        show_progress(f"Waiting for a quiet machine, at most {duration(wait_s)}")
        busy_nodes.wait_until_quiet(lambda: seen(observe_other_processes()), limit_pct, wait_s)
        show_progress("The machine is quiet")
