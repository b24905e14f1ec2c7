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
from orchestrator.cli.messages import messages, show, show_progress
from orchestrator.cli.output import width, write, write_output
from orchestrator.core.text import duration
from workloads.protocol import TimedWork

if TYPE_CHECKING:
    from rich.text import Text

    from orchestrator.diagnostics.bench import Bench
    from orchestrator.hardware import Look, OtherWork

_NOTES = """
The first one is the baseline. Training steps, or predictions (--of predict), are timed in short
slices that take turns, and the kernel that ran is proven. Nothing is recorded. Exit code 1 if one
of them failed.
"""


@command(
    examples=[
        "rnnsweep bench tensorflow/portable torch/fused --set settings.units=128",
        "rnnsweep bench tensorflow/portable torch/fused --model mine:build --data mine:load",
    ],
    notes=_NOTES,
)
@click.argument("implementations", metavar="IMPLEMENTATION...", nargs=-1, required=True)
@click.option(
    "--workload",
    help="A built-in one (char_rnn by default), or MODULE:FUNCTION.",
)
@click.option(
    "--model",
    metavar="MODULE:BUILD",
    help="Instead of a workload: your own function, which takes the settings and returns a model.",
)
@click.option(
    "--data",
    metavar="MODULE:LOAD",
    help="The function that loads the data of your model; without it they are random.",
)
@options.set_option(
    "Use this setting of the workload, such as settings.units=128; may be repeated."
)
@click.option("--hardware", "device", default="cpu", show_default=True, help="cpu, gpu or a GPU.")
@click.option(
    "--of",
    "timed_work",
    type=click.Choice(["train", "predict"]),
    default="train",
    show_default=True,
    help="Time training steps, or predictions of whole batches.",
)
@click.option(
    "--rounds",
    type=click.IntRange(min=1, max=1000),
    default=6,
    show_default=True,
    help="Rounds, each with new models; fewer than 6 give no verdict.",
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
    rounds: int,
    export_json: Path | None,
    **named: Any,
) -> int:
    """Compare the speed of IMPLEMENTATIONs on this machine."""
    from orchestrator.analysis.summary import summarise
    from orchestrator.diagnostics import bench as benches
    from orchestrator.hardware import Look
    from orchestrator.report.formats.json_format import summary_json

    look = Look()  # its seconds pass meanwhile
    timed = {key: named[key] for key in ("workload", "model", "data") if named[key] is not None}
    if "data" in timed and "model" not in timed:
        raise click.UsageError("--data: expected --model as well, whose data it loads")
    if "model" in timed and "workload" in timed:
        raise click.UsageError("expected --workload or --model; received both")
    if "model" in timed:  # takes seconds
        show_progress(f"building {timed['model']} on each backend")
    made = benches.make_bench(
        implementations, timed or {"workload": "char_rnn"}, overrides, device, timed_work
    )
    _show_estimate(made, rounds, str(made.effort(rounds)))
    _wait_until_quiet(look, made, named["wait_quiet_s"])
    with interrupted_by(signal.SIGTERM):
        has_all_rounds = _run_until_interrupted(made, rounds)
        with held_back(signal.SIGINT, signal.SIGTERM):  # nothing that was measured is lost
            summary = summarise(made.record())
            write(benches.as_document(summary))
            if export_json is not None:
                write_output(summary_json(summary).encode(), export_json)
    if not has_all_rounds:
        return EXIT_STOPPED
    return WITH_FAILURES if summary.left_out else COMPLETE


def _show_estimate(made: Bench, rounds: int, text: str) -> None:
    effort = made.effort(rounds)
    facts = {"rounds": rounds, "models": effort.models, "least_seconds": effort.least_s}
    show_progress(text, "estimate", **facts, seconds_left=made.seconds_left(rounds))


def _run_until_interrupted(made: Bench, rounds: int) -> bool:
    """Run the rounds; at Ctrl-C keep the whole ones, if any. Return whether it was not stopped."""
    try:
        _run(made, rounds)
    except KeyboardInterrupt:
        made.rounds = [trials for trials in made.rounds if all(trial.ended for trial in trials)]
        if not made.rounds:
            raise
        show(f"Stopped after {len(made.rounds)} of {rounds} rounds.\n", err=True)
        return False
    return True


def _run(made: Bench, rounds: int) -> None:
    """Run the rounds, and show them on stderr: live on a terminal, else a line as each begins."""
    from rich.console import Console
    from rich.live import Live

    console = Console(stderr=True)
    if console.is_terminal and not messages().are_json:
        with Live(console=console, auto_refresh=False, transient=True) as live:
            made.run(rounds, lambda doing: live.update(_drawn(made, rounds, doing), refresh=True))
    else:
        made.run(rounds, _RoundLines(made, rounds).show)


class _RoundLines:
    """Prints a line as each round begins, and the estimate after the first slices."""

    def __init__(self, made: Bench, rounds: int) -> None:
        self._made, self._rounds = made, rounds
        self._rounds_shown, self._is_estimated = 0, False

    def show(self, _doing: str) -> None:
        """Print what is new since the last call."""
        from orchestrator.diagnostics.bench import HOW_TO_SHORTEN

        begun, left_s = len(self._made.rounds), self._made.seconds_left(self._rounds)
        if begun > self._rounds_shown:
            self._rounds_shown = begun
            facts = {"round": begun, "rounds": self._rounds, "seconds_left": left_s}
            show_progress(_round_text(begun, self._rounds, left_s), "round", **facts)
        elif begun == 1 and left_s is not None and not self._is_estimated:
            self._is_estimated = True
            text = f"about {duration(left_s)} for all rounds. {HOW_TO_SHORTEN}"
            _show_estimate(self._made, self._rounds, text)


def _drawn(made: Bench, rounds: int, doing: str) -> Text:
    """Return the results so far for a terminal, below the round that runs."""
    from rich.text import Text

    from orchestrator.analysis.summary import summarise
    from orchestrator.diagnostics.bench import as_document
    from orchestrator.report.formats.text import to_text

    head = _round_text(len(made.rounds), rounds, made.seconds_left(rounds))
    document = as_document(summarise(made.record()))
    head += f": {doing}" if doing else ""
    return Text.from_ansi(f"{head}\n{to_text(document, width(), colour=True)}")


def _round_text(number: int, rounds: int, left_s: float | None) -> str:
    text = f"round {number} of {rounds}"
    return text if left_s is None else f"{text}, about {duration(left_s)} left"


def _wait_until_quiet(look: Look, made: Bench, wait_s: float | None) -> None:
    """Tell what other processes take of the CPUs if it is much; with `wait_s` wait so long."""
    from orchestrator.cluster import other_work
    from orchestrator.hardware import observe_other_work

    limit_pct = made.spec.disturbance_limits.others_cpu_pct
    host = made.plan.possible[0].hardware.nodes[0].profile.hostname

    def seen(work: OtherWork | None) -> dict[str, OtherWork]:
        return {host: work} if work is not None else {}

    busy = other_work.describe_busy(seen(look.result()), limit_pct)
    if busy is None:
        return
    show_progress(other_work.start_line(busy, waits=wait_s is not None))
    if wait_s is not None:
        show_progress(f"Waiting for a quiet machine, at most {duration(wait_s)}")
        other_work.wait_until_quiet(lambda: seen(observe_other_work()), limit_pct, wait_s)
        show_progress("The machine is quiet")
