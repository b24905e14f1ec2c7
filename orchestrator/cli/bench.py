"""`rnnsweep bench`: a comparison in one line, with a live table."""

# ruff: noqa: PLC0415

from __future__ import annotations

import json
import signal
from pathlib import Path

import click

from orchestrator.cli.exit_codes import (
    COMPLETE,
    STOPPED,
    WITH_FAILURES,
    interrupted_by,
    with_exit_code,
)
from orchestrator.cli.options import in_a_folder, setting_option
from orchestrator.cli.output import put, show, wants_colour, width


@click.command()
@click.argument("implementations", metavar="IMPLEMENTATION...", nargs=-1, required=True)
@click.option(
    "--workload", default="char_rnn", show_default=True, help="A built-in one, or MODULE:FUNCTION."
)
@setting_option("Use this setting of the workload, such as units=128; may be repeated.")
@click.option("--hardware", "device", default="cpu", show_default=True, help="cpu, gpu or a GPU.")
@click.option(
    "--rounds",
    type=click.IntRange(min=1, max=1000),
    default=6,
    show_default=True,
    help="Rounds, each with new models; fewer than 6 give no verdict.",
)
@click.option(
    "--export-json",
    type=click.Path(path_type=Path, dir_okay=False),
    callback=in_a_folder,
    help="Also write the results to this file.",
)
@click.option(
    "--save-spec",
    type=click.Path(path_type=Path, dir_okay=False),
    callback=in_a_folder,
    help="Also write a spec to start a sweep from.",
)
@with_exit_code
def bench(
    implementations: tuple[str, ...],
    workload: str,
    overrides: tuple[str, ...],
    device: str,
    rounds: int,
    export_json: Path | None,
    save_spec: Path | None,
) -> int:
    """Compare the speed of IMPLEMENTATIONs on this machine; the first one is the baseline.

    \b
    rnnsweep bench tensorflow/portable torch/fused --workload char_rnn --set units=128

    Their training steps are timed in short slices that take turns, and the kernel that ran is
    proven. Nothing is recorded. Exit code 1 if one of them failed.
    """
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    from orchestrator.diagnostics import bench as benches
    from orchestrator.report.formats.text import to_text

    made = benches.make_bench(implementations, workload, overrides, device)
    if save_spec is not None:
        put(benches.as_spec(made).encode(), save_spec)
    console = Console(stderr=True)

    def drawn() -> Text:
        head = f"round {len(made.rounds)} of {rounds}\n"
        return Text.from_ansi(head + to_text(benches.as_document(made), width(), colour=True))

    code = COMPLETE
    with interrupted_by(signal.SIGTERM):
        try:
            if console.is_terminal:
                with Live(console=console, auto_refresh=False, transient=True) as live:
                    made.run(rounds, lambda: live.update(drawn(), refresh=True))
            else:
                made.run(rounds, lambda: None)
        except KeyboardInterrupt:
            made.rounds = [trials for trials in made.rounds if all(one.ended for one in trials)]
            if not made.rounds:
                raise
            show(f"Stopped after {len(made.rounds)} of {rounds} rounds.\n", err=True)
            code = STOPPED
    show(to_text(benches.as_document(made), width(), colour=wants_colour()))
    if export_json is not None:
        put((json.dumps(benches.as_json(made), indent=2) + "\n").encode(), export_json)
    failed = any(arm.failure for arm in made.results())
    return code or (WITH_FAILURES if failed else COMPLETE)
