"""`rnnsweep submit`: a start of a sweep on the head of a cluster."""

# ruff: noqa: PLC0415

from __future__ import annotations

import os
import shlex
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

import click

from orchestrator.cli import exit_codes, options
from orchestrator.cli.cluster_starts import follow_start, next_commands
from orchestrator.cli.command import command
from orchestrator.cli.messages import show, show_progress
from orchestrator.core.errors import Refusal

if TYPE_CHECKING:
    from orchestrator.cluster.jobs import Cluster, Submitted
    from orchestrator.core.start_command import StartCommand
    from orchestrator.spec import SweepSpec

_HOME = "~/rnnsweep-data"
"""The folder of submitted sweeps on the head: Ray's own folders are deleted with the cluster."""

_NOTES = """
The sweep runs on the head of the cluster, and continues after Ctrl-C or without this machine.
rnnsweep's code and your own workload are uploaded. MLFLOW_TRACKING_URI and MLflow's credentials
are passed on if they are set, and then appear in Ray's logs. To avoid that, store the credentials
in ~/.mlflow/credentials on the head. The exit code is the sweep's.
"""


@command(
    examples=["rnnsweep submit quickstart --address http://HEAD:8265"],
    notes=_NOTES + options.SPEC_NOTES,
)
@options.start_options
@options.dashboard_option(required=True)
@click.option(
    "--home",
    default=_HOME,
    show_default=True,
    help="Keep the sweep in this folder of the head: an absolute path, or one that starts with ~.",
)
@click.option("--detach", is_flag=True, help="Return as soon as the sweep is submitted.")
@click.option("--dry-run", is_flag=True, help="List the files that would be sent; send nothing.")
def submit(
    spec: Path,
    overrides: tuple[str, ...],
    address: str,
    home: str,
    *,
    quiet: bool,
    detach: bool,
    dry_run: bool,
    **flags: bool,
) -> int:
    """Run or resume a sweep on a cluster; follow its output."""
    from orchestrator.execution.workload_check import check_user_code
    from orchestrator.spec import load_spec
    from orchestrator.spec.reading import refuse_file

    checked = load_spec(spec, overrides)
    if not (quiet or dry_run):  # before imports that take seconds
        show_progress(f"{checked.name}: checking its workload, connecting to {address}")
    refuse = partial(refuse_file, spec, overrides)
    tell = None if quiet else show_progress
    check_user_code(checked, on_cluster=True, refuse=refuse, tell=tell)
    if dry_run:
        _list_files(checked)
        return exit_codes.COMPLETE
    from orchestrator.cluster.jobs import Cluster, describe_store, store_for

    home = _expect_folder_of_head(home)
    environ = {**store_for(address, os.environ), "RNNSWEEP_HOME": home}
    cluster = Cluster(address)
    typed = options.start_command(
        "submit", spec, overrides, address=address, home=None if home == _HOME else home
    )
    _expect_no_active_start(cluster, checked.name)
    words = _run_words(checked, overrides, typed, {**flags, "quiet": quiet})
    start = _send(cluster, spec, checked, words, environ)
    if detach or not quiet:
        show(
            f"{start.id} was submitted to {cluster.address}; the head keeps the sweep in "
            f"{home}. {describe_store(environ, home)}\n",
            err=True,
        )
    if detach:
        show(next_commands(checked.name, address), err=True)
        return exit_codes.COMPLETE
    resume = str(typed.with_flags("--retry-failed") if flags["retry_failed"] else typed)
    return follow_start(cluster, start, resume)


def _list_files(spec: SweepSpec) -> None:
    """Print the code that would be sent."""
    from orchestrator.cluster import code_bundle

    files = code_bundle.manifest(spec.workload_name, spec.search.user_classes)
    for name, path in sorted(files.items()):
        show(f"{path.stat().st_size:>10,} {name}\n")


def _expect_folder_of_head(home: str) -> str:
    """Return the path as the head writes it; refuse one that depends on a working folder."""
    if not home.startswith(("/", "~/")):
        raise Refusal(f"--home: expected an absolute path on the head or ~/…, received {home!r}")
    return str(PurePosixPath(home))


def _expect_no_active_start(cluster: Cluster, sweep: str) -> None:
    """Refuse a start while another one of its sweep runs."""
    running = cluster.latest(sweep)
    if running is not None and running.is_active:
        raise Refusal(
            f"{sweep} is already running there ({running.id})\n"
            f"Follow it: rnnsweep logs {sweep} --follow --address {cluster.address}\n"
            f"Stop it: rnnsweep stop {sweep} --address {cluster.address}"
        )


def _run_words(
    spec: SweepSpec, overrides: Sequence[str], typed: StartCommand, flags: Mapping[str, bool]
) -> Sequence[str]:
    """Return the command that runs `sweep.yaml` on the head, of the start that a user `typed`."""
    words = ["python", "-m", "orchestrator", "run", "sweep.yaml", "--address", "auto"]
    words += [*options.set_words(overrides), "--typed-as", typed.to_json()]
    words += [f"--{name.replace('_', '-')}" for name, is_set in flags.items() if is_set]
    if spec.prices:  # from a file that stays here
        words += ["--set", options.prices_override(spec.prices)]
    return words


def _send(
    cluster: Cluster,
    spec_path: Path,
    spec: SweepSpec,
    words: Sequence[str],
    environ: Mapping[str, str],
) -> Submitted:
    """Send the spec's file and the code to the head, where the command of these words starts."""
    from orchestrator.cluster import code_bundle

    with tempfile.TemporaryDirectory(prefix="rnnsweep-submit-") as scratch:
        shutil.copyfile(spec_path, Path(scratch, "sweep.yaml"))
        code_bundle.pack(Path(scratch), spec.workload_name, spec.search.user_classes)
        variables = {**code_bundle.environ(spec.workload_name), **environ}
        shell_line = f"exec {shlex.join(words)}"
        return cluster.submit(spec.name, shell_line, Path(scratch), variables)
