"""Commands that reach a sweep from any machine: `submit`, `status`, `logs` and `stop`."""

# ruff: noqa: PLC0415

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shlex
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

import click

from orchestrator.cli import exit_codes, options
from orchestrator.cli.command import command
from orchestrator.cli.messages import show, show_progress
from orchestrator.cli.output import write
from orchestrator.core.errors import Refusal, printable
from orchestrator.core.text import duration
from orchestrator.storage.home import sweep_home

if TYPE_CHECKING:
    from orchestrator.cluster.jobs import Cluster, Submitted
    from orchestrator.spec import Price, SweepSpec

_HOME = "~/rnnsweep-data"
"""The folder of submitted sweeps on the head: Ray's own folders are deleted with the cluster."""

_SUBMIT_NOTES = """
The sweep runs on the head of the cluster. Ctrl-C, or the end of this machine, leaves it
running. Its code is uploaded, together with your own workload. RNNSWEEP_TRACKING_URI, or else
MLFLOW_TRACKING_URI and the credentials of MLflow are passed on where they are set, and appear
in Ray's logs there. To keep MLflow's out of the logs, put them into ~/.mlflow/credentials on
the head. The exit code is the sweep's exit code.
"""

_REPAIR_NOTES = """
For a journal that a command refuses as damaged, after a fault of the disk for example. The old
file is kept next to the new one. The next start of the sweep reads from MLflow what the removed
lines had.
"""

_MEANINGS = {
    exit_codes.COMPLETE: "complete",
    exit_codes.WITH_FAILURES: "complete, with failed trials",
    exit_codes.REFUSED: "refused, nothing was run",
    exit_codes.EXIT_STOPPED: "stopped, can be resumed",
    exit_codes.INTERNAL_ERROR: "ended by an internal error",
}


@command(
    examples=["rnnsweep submit quickstart.yaml --address http://HEAD:8265"],
    notes=_SUBMIT_NOTES,
)
@options.start_options
@options.dashboard_option(required=True)
@click.option(
    "--home",
    default=_HOME,
    show_default=True,
    help="Keep the sweep in this folder of the head: an absolute path, or one from ~.",
)
@click.option("--detach", is_flag=True, help="Return as soon as the sweep is submitted.")
@click.option("--dry-run", is_flag=True, help="List the files that would be sent; send nothing.")
def submit(
    spec: Path,
    overrides: tuple[str, ...],
    address: str,
    home: str,
    *,
    yes: bool,
    quiet: bool,
    detach: bool,
    **flags: bool,
) -> int:
    """Run or resume a sweep on a cluster; follow its output."""
    from orchestrator.cluster import code_bundle
    from orchestrator.execution.workload_check import check_user_code
    from orchestrator.spec import load_spec
    from orchestrator.spec.reading import refuse_file
    from workloads.own_code import read_code

    checked = load_spec(spec, overrides)
    classes = checked.search.user_classes
    is_dry_run = flags.pop("dry_run")
    if not (quiet or is_dry_run):  # before imports that take seconds
        show_progress(f"{checked.name}: checking its workload, connecting to {address}")
    check_user_code(checked, on_cluster=True, refuse=partial(refuse_file, spec, overrides))
    if is_dry_run:
        for name, path in sorted(code_bundle.manifest(checked.workload_name, classes).items()):
            show(f"{path.stat().st_size:>10,} {name}\n")
        return exit_codes.COMPLETE
    from orchestrator.cluster.jobs import Cluster, describe_store, store_for

    if not home.startswith(("/", "~/")):
        raise Refusal(f"--home: expected an absolute path on the head or ~/…, received {home!r}")
    home = str(PurePosixPath(home))
    environ = {**store_for(address, os.environ), "RNNSWEEP_HOME": home}
    # The number of hardware classes is known on the cluster only.
    trials = checked.most_blocks * len(checked.arms.per_hardware) * checked.repeats
    if trials > options.MANY_TRIALS and not yes and sys.stdin.isatty():
        options.expect_confirmation(f"Run {trials} trials for each class of hardware?", _ask)
    cluster = Cluster(address)
    typed = options.start_command(
        "submit", spec, overrides, address=address, home=None if home == _HOME else home
    )
    resume = str(typed.with_flags("--retry-failed") if flags["retry_failed"] else typed)
    codes = [read_code(name) for name in (checked.workload_name, *classes)]  # as they are submitted
    sent = f"{checked.model_dump_json()}{[code.digests for code in codes if code]}"
    digest = hashlib.sha256(sent.encode()).hexdigest()
    running = cluster.latest(checked.name)
    if running is not None and running.is_active:
        if running.digest != digest or any(flags.values()):
            differs = "with another spec or code" if running.digest != digest else "already"
            raise Refusal(
                f"{running.sweep} is running there {differs}, as {running.id}: follow it with "
                f"rnnsweep logs {running.sweep} --follow --address {address}, or end it first with "
                f"rnnsweep stop {running.sweep} --address {address}"
            )
        show(f"{checked.name} is running there already, as {running.id}\n", err=True)
        submitted = running
    else:
        words = [*options.set_words(overrides), "--typed-as", typed.to_json()]
        flags["quiet"] = quiet
        words += [f"--{name.replace('_', '-')}" for name, is_set in flags.items() if is_set]
        with tempfile.TemporaryDirectory(prefix="rnnsweep-submit-") as scratch:
            shutil.copyfile(spec, Path(scratch, "sweep.yaml"))
            code_bundle.pack(Path(scratch), checked.workload_name, classes)
            variables = {**code_bundle.environ(checked.workload_name), **environ}
            shell_line = _run_command(checked, words)
            submitted = cluster.submit(checked.name, digest, shell_line, Path(scratch), variables)
        show(
            f"{submitted.id} was submitted to {cluster.address}; the head keeps the sweep in "
            f"{home}. {describe_store(environ, home)}\n",
            err=True,
        )
    if detach:
        show(_next_commands(checked.name, address), err=True)
        return exit_codes.COMPLETE
    return _follow(cluster, submitted, resume)


def _ask(prompt: str) -> str:
    show(prompt, err=True)
    return sys.stdin.readline()


def _run_command(spec: SweepSpec, more_words: Sequence[str]) -> str:
    """Return the shell command that runs `sweep.yaml` on the head with these options."""
    words = ["python", "-m", "orchestrator", "run", "sweep.yaml", "--address", "auto", "--yes"]
    words += more_words
    if spec.prices:  # from a file that stays here
        words += ["--set", prices_word(spec.prices)]
    return f"exec {shlex.join(words)}"


def prices_word(prices: Sequence[Price]) -> str:
    """Return the override that has these prices, for a command that does not have their file."""
    table = [price.model_dump(mode="json", exclude_unset=True) for price in prices]
    return f"prices={json.dumps(table)}"


@command(
    examples=["rnnsweep status quickstart"],
    notes="Without --address these are the sweeps that run, or have run, on this machine.",
)
@options.sweep_argument("sweep", required=False)
@options.dashboard_option()
@options.json_option
def status(sweep: str | None, address: str | None, form: str | None) -> None:
    """Show the progress of one SWEEP or of all."""
    from orchestrator.cli import local
    from orchestrator.cluster.jobs import Cluster

    if address is None and form == "json":
        write(local.status_json(sweep_home(), sweep))
        return
    if address is None:
        show(printable(local.describe_sweeps(sweep_home(), sweep)))
        return
    if form == "json":
        raise click.UsageError("--format json: the sweeps of this machine only, without --address")
    cluster = Cluster(address)
    if sweep is not None:
        latest = [_expect_start(cluster, sweep)]
    else:
        latest = list({start.sweep: start for start in cluster.starts()}.values())
    text = "".join(_describe(cluster, start) for start in latest)
    show(text or f"no sweeps at {cluster.address}\n")


@command(
    examples=["rnnsweep logs quickstart --follow"],
    notes="The log ends with what stopped the sweep.",
)
@options.sweep_argument("sweep")
@options.dashboard_option()
@click.option(
    "-f",
    "--follow",
    is_flag=True,
    help="Follow the log to its end; exit with the sweep's code.",
)
def logs(sweep: str, address: str | None, follow: bool) -> int:
    """Print the log of a SWEEP, a line for each trial that ended."""
    from orchestrator.cli import local
    from orchestrator.cluster.jobs import Cluster

    if address is None:
        try:
            return local.show_log(sweep_home(), sweep, follow=follow)
        except KeyboardInterrupt:
            show(f"\n{sweep} continues without this terminal\n", err=True)
            return exit_codes.EXIT_STOPPED
    cluster = Cluster(address)
    latest = _expect_start(cluster, sweep)
    if follow and latest.is_active:
        return _follow(cluster, latest, None)
    show(printable(cluster.log(latest.id)))
    return exit_codes.COMPLETE


@command(examples=["rnnsweep stop quickstart"])
@options.sweep_argument("sweep")
@options.dashboard_option()
def stop(sweep: str, address: str | None) -> None:
    """Stop a SWEEP; it can be resumed later."""
    from orchestrator.cli import local
    from orchestrator.cluster.jobs import Cluster

    if address is None:
        local.stop_local_sweep(sweep_home(), sweep)
        return
    cluster = Cluster(address)
    latest = _expect_start(cluster, sweep)
    if not latest.is_active:
        raise Refusal(f"{sweep} is not running at {address}: {_describe_end(latest)}")
    show(f"Stopping {latest.id}: finished trials are being recorded\n", err=True)
    ended = cluster.stop(latest.id)
    show(f"{sweep}: {_describe_end(ended)}. Submit it once more to resume\n", err=True)


@command(examples=["rnnsweep repair quickstart"], notes=_REPAIR_NOTES)
@options.sweep_argument("sweep")
def repair(sweep: str) -> None:
    """Remove the damaged lines of a SWEEP's journal."""
    from orchestrator.cli import local

    show(local.repair_sweep(sweep_home(), sweep))


def fetch_report(address: str, sweep: str | None, words: Sequence[str]) -> bytes:
    """Return what `rnnsweep report` writes on the head of a cluster, where its store is reached.

    Without `sweep`, a name or a label, it is the one that was submitted last.
    """
    from orchestrator.cluster.jobs import Cluster

    cluster = Cluster(address)
    starts = sorted(cluster.starts(), key=lambda start: start.started_s or 0.0)
    name = sweep or (starts[-1].sweep if starts else "")
    start = _expect_start(cluster, name.partition("#")[0])
    report_words = ["python", "-m", "orchestrator", "report", name, *words, "-o", "report.out"]
    content = cluster.fetch(shlex.join(report_words), "report.out", "report", like=start.id)
    return content.encode()
    return content.encode()


def _show_log(text: str) -> None:
    show(printable(text))


def _follow(cluster: Cluster, submitted: Submitted, resume: str | None) -> int:
    """Print the log of a start until it ends; return its exit code."""
    from orchestrator.cluster.jobs import OutOfReach

    commands = _next_commands(submitted.sweep, cluster.address)
    try:
        with exit_codes.interrupted_by(signal.SIGTERM):
            end = cluster.follow(submitted.id, _show_log, show_progress)
    except KeyboardInterrupt:
        show(f"\n{submitted.sweep} continues without this terminal.\n{commands}", err=True)
        return exit_codes.EXIT_STOPPED
    except OutOfReach as error:
        show(f"{error}\n{commands}", err=True)
        return exit_codes.EXIT_STOPPED
    ended = exit_codes.EXIT_STOPPED if end.began else exit_codes.REFUSED
    code = end.exit_code if end.exit_code in _MEANINGS else ended
    if code != end.exit_code:  # it ended without a message of its own
        show(f"{submitted.sweep}: {_describe_end(end)}\n", err=True)
        if resume is not None and code == exit_codes.EXIT_STOPPED:
            show(f"Resume with: {resume}\n", err=True)
    return code


def _describe_end(latest: Submitted) -> str:
    """Return how a start ended, in a few words."""
    if latest.exit_code in _MEANINGS:
        return _MEANINGS[latest.exit_code]
    if latest.state == "stopped":
        return _MEANINGS[exit_codes.EXIT_STOPPED]
    reason = " ".join(latest.message.split())[-500:] or "for an unknown reason"
    return f"{'killed' if latest.began else 'could not be started'}: {reason}"


def _expect_start(cluster: Cluster, sweep: str) -> Submitted:
    latest = cluster.latest(sweep)
    if latest is not None:
        return latest
    names = ", ".join(sorted({start.sweep for start in cluster.starts()})) or "none"
    raise Refusal(f"no sweep {sweep!r} was submitted to {cluster.address}; it has had {names}")


def _describe(cluster: Cluster, latest: Submitted) -> str:
    if latest.is_active:
        since_s = time.time() - latest.started_s if latest.started_s else 0.0
        state = f"{latest.state} ({latest.id}), for {duration(since_s)}"
    else:
        ago_s = time.time() - latest.ended_s if latest.ended_s else 0.0
        state = f"{_describe_end(latest)} ({latest.id}), {duration(ago_s)} ago"
    lines = [f"{latest.sweep}: {state}"]
    if latest.is_active:
        with contextlib.suppress(Refusal):
            log = [line for line in cluster.log(latest.id).splitlines() if line.strip()]
            lines += [f"  {log[-1]}"] if log else []
    return "\n".join(lines) + "\n"


def _next_commands(sweep: str, address: str) -> str:
    return (
        "From any machine:\n"
        f"  rnnsweep status {sweep} --address {address}\n"
        f"  rnnsweep logs {sweep} --follow --address {address}\n"
        f"  rnnsweep stop {sweep} --address {address}\n"
        f"  rnnsweep report {sweep} -o report.html --address {address}\n"
    )
