"""The command line: all commands, by group. Results go to stdout, messages to stderr.

Each command is in a file of its name, with its options, their help and its examples. Heavy imports
wait until a command needs them, so that `--help` answers at once.
"""

from collections.abc import Mapping, Sequence

import click

from orchestrator import __version__
from orchestrator.cli.bench import bench
from orchestrator.cli.best import best
from orchestrator.cli.command import CommandGroup, CommandWithExamples
from orchestrator.cli.compare import compare
from orchestrator.cli.doctor import doctor
from orchestrator.cli.exit_codes import EXIT_CODES_HELP
from orchestrator.cli.hardware import hardware
from orchestrator.cli.init import init
from orchestrator.cli.logs import logs
from orchestrator.cli.plan import plan
from orchestrator.cli.query import query
from orchestrator.cli.report import report
from orchestrator.cli.run import run
from orchestrator.cli.status import status
from orchestrator.cli.stop import stop
from orchestrator.cli.submit import submit
from orchestrator.cli.ui import ui

GROUPS: Mapping[str, Sequence[CommandWithExamples]] = {
    "Run": (init, plan, run, submit, status, logs, stop),
    "Read": (report, query, best, ui),
    "Compare": (bench, compare),
    "Machine": (doctor, hardware),
}
"""The commands by the groups of `rnnsweep --help`, in its order."""

FORMER: Mapping[str, str] = {
    "demo": "rnnsweep run quickstart",
    "list": "rnnsweep status",
    "workloads": "docs/workloads.md",
    "check": "rnnsweep run SPEC, which compares the journal with MLflow",
    "repair": "rnnsweep status SWEEP, which names the damaged line",
    "export": "rnnsweep query SWEEP --columns all -o trials.parquet",
    "predict": "rnnsweep plan SPEC",
    "parity": "rnnsweep run SPEC, which checks that all arms compute the same",
}
"""What replaces the commands of release 0.1.0 that are gone."""


@click.group(
    cls=CommandGroup,
    groups=GROUPS,
    former=FORMER,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=EXIT_CODES_HELP,
)
@click.version_option(__version__, prog_name="rnnsweep")
def main() -> None:
    """Find out which LSTM implementation trains fastest on your hardware.

    Start with `rnnsweep run quickstart`, which takes three minutes.
    """
