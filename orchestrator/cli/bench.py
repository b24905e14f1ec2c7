"""`rnnsweep bench`: the speed of implementations on this machine, without a spec."""

# ruff: noqa: PLC0415

import signal
from pathlib import Path

import click

from orchestrator.cli import options
from orchestrator.cli.command import command
from orchestrator.cli.exit_codes import COMPLETE, EXIT_STOPPED, WITH_FAILURES, interrupted_by
from orchestrator.cli.messages import messages, show, show_progress
from orchestrator.cli.output import width, write, write_output
from workloads.protocol import TimedWork

_NOTES = """
The first one is the baseline. Training steps, or predictions (--of predict), are timed in short
slices that take turns, and the kernel that ran is proven. Nothing is recorded. Exit code 1 if one
of them failed.
"""


@command(
    examples=[
        "rnnsweep bench tensorflow/portable torch/fused --workload char_rnn --set units=128",
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
@options.set_option("Use this setting of the workload, such as units=128; may be repeated.")
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
@options.new_file_option("--save-spec", help="Also write a spec to start a sweep from.")
@options.json_progress_option
def bench(
    implementations: tuple[str, ...],
    *,
    overrides: tuple[str, ...],
    device: str,
    timed_work: TimedWork,
    rounds: int,
    export_json: Path | None,
    save_spec: Path | None,
    **named: str | None,
) -> int:
    """Compare the speed of IMPLEMENTATIONs on this machine."""
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    from orchestrator.analysis.summary import summarise
    from orchestrator.diagnostics import bench as benches
    from orchestrator.report.formats.json_format import summary_json
    from orchestrator.report.formats.text import to_text

    timed = {key: name for key, name in named.items() if name is not None}
    if "data" in timed and "model" not in timed:
        raise click.UsageError("--data: expected --model as well, whose data it loads")
    if "model" in timed and "workload" in timed:
        raise click.UsageError("expected --workload or --model; received both")
    if "model" in timed:  # takes seconds
        show_progress(f"building {timed['model']} on each backend")
    made = benches.make_bench(
        implementations, timed or {"workload": "char_rnn"}, overrides, device, timed_work
    )
    if save_spec is not None:
        write_output(benches.as_spec(made).encode(), save_spec)
    console, round_shown = Console(stderr=True), 0

    def print_round() -> None:
        nonlocal round_shown
        if len(made.rounds) > round_shown:
            round_shown = len(made.rounds)
            text = f"round {round_shown} of {rounds}"
            show_progress(text, "round", round=round_shown, rounds=rounds)

    def drawn() -> Text:
        head = f"round {len(made.rounds)} of {rounds}\n"
        document = benches.as_document(summarise(made.record()))
        return Text.from_ansi(head + to_text(document, width(), colour=True))

    code = COMPLETE
    with interrupted_by(signal.SIGTERM):
        try:
            if console.is_terminal and not messages().are_json:
                with Live(console=console, auto_refresh=False, transient=True) as live:
                    made.run(rounds, lambda: live.update(drawn(), refresh=True))
            else:
                made.run(rounds, print_round)
        except KeyboardInterrupt:
            made.rounds = [trials for trials in made.rounds if all(trial.ended for trial in trials)]
            if not made.rounds:
                raise
            show(f"Stopped after {len(made.rounds)} of {rounds} rounds.\n", err=True)
            code = EXIT_STOPPED
    summary = summarise(made.record())
    write(benches.as_document(summary))
    if export_json is not None:
        write_output(summary_json(summary).encode(), export_json)
    if code == COMPLETE and summary.left_out:
        return WITH_FAILURES
    return code
