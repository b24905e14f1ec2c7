"""`rnnsweep submit`, and `status`, `logs` and `stop` for sweeps on a cluster."""

# ruff: noqa: PLC0415

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import os
import shlex
import shutil
import signal
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from orchestrator.cli.exit_codes import (
    COMPLETE,
    INTERNAL_ERROR,
    REFUSED,
    STOPPED,
    WITH_FAILURES,
    interrupted_by,
)
from orchestrator.cli.options import (
    MANY_TRIALS,
    expect_confirmation,
    resume_command,
    set_words,
)
from orchestrator.cli.output import show
from orchestrator.cluster.remote_tracking import store_for, where
from orchestrator.core.errors import Refusal
from orchestrator.core.text import duration

if TYPE_CHECKING:
    from orchestrator.cluster.jobs import Cluster, Order, Submitted
    from orchestrator.spec import SweepSpec

HOME = "~/rnnsweep-data"
"""The folder of submitted sweeps on the head: Ray's own folders are deleted with the cluster."""


@dataclass(frozen=True, slots=True)
class SubmitOptions:
    """The options of `submit`: how a sweep is run, as opposed to what it is."""

    home: str = HOME
    fresh: bool = False
    retry_failed: bool = False
    yes: bool = False
    detach: bool = False


def submit(spec: Path, overrides: tuple[str, ...], address: str, options: SubmitOptions) -> int:
    """Send a sweep to a cluster and follow it to its end.

    Returns:
        The exit code of the sweep; 0 if it is not followed (`detach`).
    """
    from orchestrator.cluster.jobs import Cluster
    from orchestrator.execution.workload_check import expect_importable
    from orchestrator.spec import load

    checked = load(spec, overrides)
    expect_importable(checked, on_cluster=True)
    home = _expect_home(options.home)
    environ = {**store_for(address, os.environ), "RNNSWEEP_HOME": home}
    _confirm(checked, options)
    cluster = Cluster(address)
    resume = _resume_command(spec, overrides, address, options)
    digest = hashlib.sha256(checked.model_dump_json().encode()).hexdigest()
    running = cluster.latest(checked.name)
    if running is not None and running.is_active:
        _expect_same(running, digest, options, address)
        show(f"{checked.name} is running there already, as {running.id}\n", err=True)
        submitted = running
    else:
        with tempfile.TemporaryDirectory(prefix="rnnsweep-submit-") as scratch:
            order = _order(checked, digest, (spec, overrides), Path(scratch), options, resume)
            order = dataclasses.replace(order, environ={**order.environ, **environ})
            submitted = cluster.submit(order)
        show(
            f"{submitted.id} was submitted to {cluster.address}; the head keeps the sweep in "
            f"{home}. {where(environ, home)}\n",
            err=True,
        )
    if options.detach:
        show(_next_commands(checked.name, address), err=True)
        return COMPLETE
    return _follow(cluster, submitted, resume)


def logs(address: str, sweep: str, *, follow: bool) -> int:
    """Print the log of the latest start of a sweep, to its end if `follow`."""
    from orchestrator.cluster.jobs import Cluster

    cluster = Cluster(address)
    latest = _expect_start(cluster, sweep)
    if follow and latest.is_active:
        return _follow(cluster, latest, None)
    show(cluster.log(latest.id))
    return COMPLETE


def stop(address: str, sweep: str) -> int:
    """Stop a sweep, so that it can be resumed later."""
    from orchestrator.cluster.jobs import Cluster

    cluster = Cluster(address)
    latest = _expect_start(cluster, sweep)
    if not latest.is_active:
        raise Refusal(f"{sweep} is not running at {address}: {_describe_end(latest)}")
    show(f"Stopping {latest.id}: finished trials are being recorded\n", err=True)
    ended = cluster.stop(latest.id)
    show(f"{sweep}: {_describe_end(ended)}. Submit it once more to resume\n", err=True)
    return COMPLETE


def status(address: str, sweep: str | None) -> str:
    """Return a paragraph for each sweep of the cluster, or for one."""
    from orchestrator.cluster.jobs import Cluster

    cluster = Cluster(address)
    if sweep is not None:
        latest = [_expect_start(cluster, sweep)]
    else:
        latest = list({start.sweep: start for start in cluster.starts()}.values())
    if not latest:
        return f"no sweeps at {cluster.address}\n"
    return "".join(_describe(cluster, start) for start in latest)


def _expect_home(home: str) -> str:
    """Return a folder of the head, which cannot be checked from here."""
    if not home.startswith(("/", "~/")):
        raise Refusal(f"--home: expected an absolute path on the head or ~/…, received {home!r}")
    return str(PurePosixPath(home))


def _confirm(spec: SweepSpec, options: SubmitOptions) -> None:
    """Ask before a large sweep; the number of hardware classes is known on the cluster only."""

    def ask(prompt: str) -> str:
        show(prompt, err=True)
        return sys.stdin.readline()

    trials = spec.most_blocks * len(spec.arms.implementations) * spec.repeats
    if trials > MANY_TRIALS and not options.yes and sys.stdin.isatty():
        expect_confirmation(f"Run {trials} trials for each class of hardware?", ask)


def _expect_same(running: Submitted, digest: str, options: SubmitOptions, address: str) -> None:
    """Refuse to follow a running sweep of the same name with another spec.

    Raises:
        Refusal: the running sweep has another spec, or was to be started with other options.
    """
    if running.digest == digest and not (options.fresh or options.retry_failed):
        return
    differs = "with another spec" if running.digest != digest else "already"
    raise Refusal(
        f"{running.sweep} is running there {differs}, as {running.id}: follow it with "
        f"rnnsweep logs {running.sweep} --follow --address {address}, or end it first with "
        f"rnnsweep stop {running.sweep} --address {address}"
    )


def _order(
    spec: SweepSpec,
    digest: str,
    source: tuple[Path, tuple[str, ...]],
    folder: Path,
    options: SubmitOptions,
    resume: str,
) -> Order:
    from orchestrator.cluster import code_bundle
    from orchestrator.cluster.jobs import Order

    code_bundle.pack(folder, spec.workload)
    file, overrides = source
    shutil.copyfile(file, folder / "sweep.yaml")
    words = ["python", "-m", "orchestrator", "run", "sweep.yaml", "--address", "auto", "--yes"]
    words += set_words(overrides)
    if spec.prices:  # from a file that stays here
        table = [price.model_dump(mode="json", exclude_unset=True) for price in spec.prices]
        words += ["--set", f"prices={json.dumps(table)}"]
    words += ["--fresh"] if options.fresh else []
    words += ["--retry-failed"] if options.retry_failed else []
    words += ["--resume-command", resume]
    return Order(spec.name, digest, f"exec {shlex.join(words)}", folder, code_bundle.environ())


def _resume_command(
    spec: Path, overrides: tuple[str, ...], address: str, options: SubmitOptions
) -> str:
    home = options.home if options.home != HOME else None
    return resume_command(
        "submit",
        spec,
        overrides,
        address=address,
        home=home,
        retry_failed=options.retry_failed,
    )


def _follow(cluster: Cluster, submitted: Submitted, resume: str | None) -> int:
    """Print the log of a start until it ends; return its exit code."""
    from orchestrator.cluster.jobs import OutOfReach

    commands = _next_commands(submitted.sweep, cluster.address)
    try:
        with interrupted_by(signal.SIGTERM):
            end = cluster.follow(submitted.id, show, lambda text: show(f"{text}\n", err=True))
    except KeyboardInterrupt:
        show(f"\n{submitted.sweep} continues without this terminal.\n{commands}", err=True)
        return STOPPED
    except OutOfReach as error:
        show(f"{error}\n{commands}", err=True)
        return STOPPED
    code = _exit_code(end)
    if code != end.exit_code:  # it ended without a message of its own
        show(f"{submitted.sweep}: {_describe_end(end)}\n", err=True)
        if resume is not None and code == STOPPED:
            show(f"Resume with: {resume}\n", err=True)
    return code


def _exit_code(end: Submitted) -> int:
    if end.exit_code in (COMPLETE, WITH_FAILURES, REFUSED, STOPPED, INTERNAL_ERROR):
        return end.exit_code
    return STOPPED if end.began else REFUSED


def _describe_end(latest: Submitted) -> str:
    """Return how a start ended, in a few words."""
    meanings = {
        COMPLETE: "complete",
        WITH_FAILURES: "complete, with failed trials",
        REFUSED: "refused, nothing was run",
        STOPPED: "stopped, can be resumed",
        INTERNAL_ERROR: "ended by an internal error",
    }
    if latest.exit_code in meanings:
        return meanings[latest.exit_code]
    if latest.state == "stopped":
        return meanings[STOPPED]
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
    )
