"""`rnnsweep submit`, and `status`, `logs` and `stop` at a distance, as their user sees them."""

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
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

import click

from orchestrator.cli.exit_codes import COMPLETE, REFUSED, STOPPED, WITH_FAILURES, show
from orchestrator.cluster.remote_tracking import store_for, where
from orchestrator.core.errors import Refusal
from orchestrator.core.text import duration

if TYPE_CHECKING:
    from orchestrator.cluster.jobs import Cluster, Order, Submitted
    from orchestrator.spec import SweepSpec

HOME = "~/rnnsweep-data"
"""Where a submitted sweep lies on the head: Ray's own folders go with the cluster."""

_LARGE = 500
"""Trials beyond which a person at a terminal is asked, as before `run`."""


@dataclass(frozen=True, slots=True)
class Options:
    """How a sweep is to be run there, as opposed to what it is."""

    home: str = HOME
    fresh: bool = False
    retry_failed: bool = False
    yes: bool = False
    detach: bool = False


def submit(spec: Path, overrides: tuple[str, ...], address: str, options: Options) -> int:
    """Send a sweep to a cluster and follow it to its end.

    Returns:
        The sweep's own exit code; 0 for one that is left to itself (`detach`).
    """
    from orchestrator.cluster.jobs import Cluster
    from orchestrator.spec import load

    loaded = load(spec, overrides)
    home = _expect_home(options.home)
    environ = {**store_for(address, os.environ), "RNNSWEEP_HOME": home}
    _expect_yes(loaded, options)
    cluster = Cluster(address)
    again = _again(spec, overrides, address, options)
    digest = hashlib.sha256(loaded.model_dump_json().encode()).hexdigest()
    running = cluster.latest(loaded.name)
    if running is not None and running.active:
        _expect_same(running, digest, options, address)
        show(f"{loaded.name} is running there already, as {running.id}\n", err=True)
        submitted = running
    else:
        with tempfile.TemporaryDirectory(prefix="rnnsweep-submit-") as scratch:
            order = _order(loaded, digest, (spec, overrides), Path(scratch), options, again)
            submitted = cluster.submit(_with(order, environ))
        show(
            f"{submitted.id} is on its way to {cluster.address}; it keeps the sweep in {home} of "
            f"the head. {where(environ, home)}\n",
            err=True,
        )
    if options.detach:
        show(_come_back(loaded.name, address), err=True)
        return COMPLETE
    return _follow(cluster, submitted, again)


def logs(address: str, sweep: str, *, follow: bool) -> int:
    """Write the log of a sweep's latest start, to its end if asked to."""
    from orchestrator.cluster.jobs import Cluster

    cluster = Cluster(address)
    latest = _expect_start(cluster, sweep)
    if follow and latest.active:
        return _follow(cluster, latest, None)
    show(cluster.log(latest.id))
    return COMPLETE


def stop(address: str, sweep: str) -> int:
    """Stop a sweep, so that it can go on later."""
    from orchestrator.cluster.jobs import Cluster

    cluster = Cluster(address)
    latest = _expect_start(cluster, sweep)
    if not latest.active:
        raise Refusal(f"{sweep} is not running at {address}: {_ended(latest)}")
    show(f"Stopping {latest.id}: it records what is done\n", err=True)
    ended = cluster.stop(latest.id)
    show(f"{sweep}: {_ended(ended)}. Submitting it again goes on\n", err=True)
    return COMPLETE


def status(address: str, sweep: str | None) -> str:
    """A paragraph for each sweep that the cluster has had, or for one."""
    from orchestrator.cluster.jobs import Cluster

    cluster = Cluster(address)
    if sweep is not None:
        latest = [_expect_start(cluster, sweep)]
    else:
        latest = list({each.sweep: each for each in cluster.starts()}.values())
    if not latest:
        return f"no sweeps at {cluster.address}\n"
    return "".join(_describe(cluster, each) for each in latest)


def _expect_home(home: str) -> str:
    """A folder of the head; it is not looked at from here."""
    if not home.startswith(("/", "~/")):
        raise Refusal(f"--home: expected an absolute path on the head or ~/…, received {home!r}")
    return str(PurePosixPath(home))


def _expect_yes(spec: SweepSpec, options: Options) -> None:
    """Ask before a large sweep: how many classes of hardware there are is only known there."""
    trials = spec.most_blocks * len(spec.arms.implementations) * spec.repeats
    if trials <= _LARGE or options.yes or not sys.stdin.isatty():
        return
    if not click.confirm(f"Run {trials} trials for each class of hardware?", err=True):
        raise Refusal("nothing was run: it was not confirmed (--yes runs it without asking)")


def _expect_same(running: Submitted, digest: str, options: Options, address: str) -> None:
    """Follow what runs only where it is what was asked for.

    Raises:
        Refusal: it is another sweep of that name.
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
    options: Options,
    again: str,
) -> Order:
    from orchestrator.cluster import code_bundle
    from orchestrator.cluster.jobs import Order

    code_bundle.pack(folder, spec.workload)
    file, overrides = source
    shutil.copyfile(file, folder / "sweep.yaml")
    words = ["python", "-m", "orchestrator", "run", "sweep.yaml", "--address", "auto", "--yes"]
    words += [word for each in overrides for word in ("--set", each)]
    if spec.prices:  # from a file that stays here
        table = [price.model_dump(mode="json", exclude_unset=True) for price in spec.prices]
        words += ["--set", f"prices={json.dumps(table)}"]
    words += [*(["--fresh"] if options.fresh else []), *_retry(options), "--again", again]
    return Order(spec.name, digest, f"exec {shlex.join(words)}", folder, code_bundle.environ())


def _with(order: Order, environ: Mapping[str, str]) -> Order:
    import dataclasses

    return dataclasses.replace(order, environ={**order.environ, **environ})


def _again(spec: Path, overrides: tuple[str, ...], address: str, options: Options) -> str:
    """The command that goes on with the sweep."""
    words = ["rnnsweep", "submit", str(spec), "--address", address]
    words += [word for each in overrides for word in ("--set", each)]
    words += ["--home", options.home] if options.home != HOME else []
    return shlex.join([*words, *_retry(options)])


def _retry(options: Options) -> list[str]:
    return ["--retry-failed"] if options.retry_failed else []


def _follow(cluster: Cluster, submitted: Submitted, again: str | None) -> int:
    from orchestrator.cluster.jobs import OutOfReach

    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        ended = cluster.follow(submitted.id, show, lambda text: show(f"{text}\n", err=True))
    except KeyboardInterrupt:
        come_back = _come_back(submitted.sweep, cluster.address)
        show(f"\n{submitted.sweep} goes on without this terminal.\n{come_back}", err=True)
        return STOPPED
    except OutOfReach as error:
        show(f"{error}\n{_come_back(submitted.sweep, cluster.address)}", err=True)
        return STOPPED
    code = _exit_code(ended)
    if code != ended.exit_code:  # it had no last word of its own
        show(f"{submitted.sweep}: {_ended(ended)}\n", err=True)
        if again is not None and code == STOPPED:
            show(f"To go on: {again}\n", err=True)
    return code


def _exit_code(ended: Submitted) -> int:
    if ended.exit_code in (COMPLETE, WITH_FAILURES, REFUSED, STOPPED):
        return ended.exit_code
    return STOPPED if ended.began else REFUSED


def _ended(latest: Submitted) -> str:
    """How a start ended, in a few words."""
    told = {
        COMPLETE: "complete",
        WITH_FAILURES: "complete, with failed trials",
        REFUSED: "refused, nothing was run",
        STOPPED: "stopped, and can go on",
    }
    if latest.exit_code in told:
        return told[latest.exit_code]
    if latest.state == "stopped":
        return told[STOPPED]
    reason = " ".join(latest.message.split())[-500:] or "no reason is known"
    return f"{'ended by force' if latest.began else 'could not be started'}: {reason}"


def _expect_start(cluster: Cluster, sweep: str) -> Submitted:
    latest = cluster.latest(sweep)
    if latest is not None:
        return latest
    names = sorted({each.sweep for each in cluster.starts()})
    known = f"; it has had {', '.join(names)}" if names else "; it has had none"
    raise Refusal(f"no sweep {sweep!r} was submitted to {cluster.address}{known}")


def _describe(cluster: Cluster, latest: Submitted) -> str:
    since = time.time() - latest.started_s if latest.started_s else 0.0
    ago = time.time() - latest.ended_s if latest.ended_s else 0.0
    if latest.active:
        said = f"{latest.state} ({latest.id}), for {duration(since)}"
    else:
        said = f"{_ended(latest)} ({latest.id}), {duration(ago)} ago"
    lines = [f"{latest.sweep}: {said}"]
    if latest.active:
        with contextlib.suppress(Refusal):
            written = [line for line in cluster.log(latest.id).splitlines() if line.strip()]
            lines += [f"  {written[-1]}"] if written else []
    return "\n".join(lines) + "\n"


def _come_back(sweep: str, address: str) -> str:
    return (
        "From any machine:\n"
        f"  rnnsweep status {sweep} --address {address}\n"
        f"  rnnsweep logs {sweep} --follow --address {address}\n"
        f"  rnnsweep stop {sweep} --address {address}\n"
    )
