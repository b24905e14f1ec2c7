"""How far sweeps are: those of this machine, read from their journals, and those of its store."""

import contextlib
import dataclasses
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orchestrator.cli.messages import show
from orchestrator.core.errors import Refusal
from orchestrator.core.failure_limit import FailureLimit, describe_failures
from orchestrator.core.text import duration
from orchestrator.core.trial import FinishedTrial, count_expected
from orchestrator.storage.heartbeat import read_heartbeat
from orchestrator.storage.home import SweepFolder
from orchestrator.storage.journal import JournalState, read, read_running
from orchestrator.storage.lock import holder
from orchestrator.storage.tracking.trackers import is_missing, without_passwords

_COUNTS = ("trials", "trials_expected", "trials_failed")
"""Metrics of a sweep's parent run, which it has from its first report on."""


def describe_sweep(home: Path, name: str) -> str:
    """Return a paragraph on the progress of a sweep in this home."""
    return _describe(expect_sweep(home, name))


def sweep_row(folder: SweepFolder, number: int) -> dict[str, Any]:
    """Return the progress of a generation as JSON data; times are seconds since the epoch."""
    state = read(folder.generation(number))
    is_latest = number == folder.latest()
    driver = holder(folder.path) if is_latest else None
    heartbeat = read_heartbeat(folder.path) if is_latest else None
    row: dict[str, Any] = {
        "sweep": state.identity.label if state else folder.name,
        "generation": number,
        "state": _state_word(state, is_running=driver is not None),
        "driver": dataclasses.asdict(driver) if driver else None,
        "trials": None,
        "running": [],
        "heartbeat": dataclasses.asdict(heartbeat) if heartbeat else None,
        "last_s": None,
        "nodes": [],
        "kept_in": ["home"],
    }
    if state is None or not state.sessions:
        return row
    session = state.sessions[-1]
    extent = _extent_of_last_plan(state)
    is_open = session.may_stop_early and not state.stop_decision
    row |= _outcomes(extent.finished, extent.trials, session.at_s, at_most=is_open)
    row["blocks"] = {"suggested": extent.suggested_blocks, "expected": extent.blocks}
    row["session"] = {
        "started_s": session.at_s,
        "rnnsweep": session.version,
        "lost_attempts": state.lost_attempts,
    }
    if driver is not None:
        running = read_running(folder.generation(number), session.at_s)
        row["running"] = [{"since_s": since_s, "what": text} for since_s, text in running]
    return row


def _outcomes(
    trials: Sequence[FinishedTrial], expected: int, begun_s: float, *, at_most: bool = False
) -> dict[str, Any]:
    """Return what trials tell of a sweep's progress, for its row."""
    outcomes = Counter(trial.status for trial in trials)
    last_ended_s = max((trial.ended_s for trial in trials), default=None)
    return {
        "trials": {
            "ended": len(trials),
            "expected": expected,
            "at_most": at_most,
            "failed": outcomes["failed"],
            "outcomes": dict(sorted(outcomes.items())),
            "last_ended_s": last_ended_s,
        },
        "last_s": max(begun_s, last_ended_s or begun_s),
        "nodes": sorted({trial.node for trial in trials} - {""}),
    }


def _state_word(state: JournalState | None, *, is_running: bool) -> str:
    if state is None or not state.sessions:
        return "starting" if is_running else "not started"
    if is_running:
        return "running"
    return state.ended.state if state.ended else "killed"


@contextlib.contextmanager
def _skipped(name: str) -> Iterator[None]:
    """Report a sweep that cannot be read: it does not hide the others."""
    try:
        yield
    except (Refusal, OSError) as error:
        show(f"{name}: cannot be read: {error}\n", err=True)


def _folders(home: Path) -> list[SweepFolder]:
    folder = home / "sweeps"
    entries = folder.iterdir() if folder.is_dir() else ()
    return [
        SweepFolder(home, name)
        for name in sorted(entry.name for entry in entries if entry.is_dir())
    ]


def expect_sweep(home: Path, name: str) -> SweepFolder:
    """Return the folder of a sweep, which may be named with its latest generation (`NAME#2`).

    Refuse a name that the home does not have, and a former generation.
    """
    folders = {folder.name: folder for folder in _folders(home)}
    head, _, number = name.partition("#")
    if number and head in folders:
        latest = folders[head].latest()
        if number == str(latest):
            return folders[head]
        raise Refusal(
            f"{name} is not the latest generation ({head}#{latest}). Earlier ones have reports"
            f" only: rnnsweep report {name}"
        )
    if name not in folders:
        raise Refusal(
            f"no sweep {name!r} in {home} (sweeps there: {', '.join(folders) or 'none'}). Set "
            "RNNSWEEP_HOME to its folder, or add --address for a sweep on a cluster"
        )
    return folders[name]


def sweep_rows(home: Path, tracking_uri: str | None = None) -> list[dict[str, Any]]:
    """Return the generations of sweeps of a home and a store as `sweep_row` does, latest first."""
    rows = dict[str, dict[str, Any]]()
    for folder in _folders(home):
        with _skipped(folder.name):
            for number in folder.generations() or [0]:
                row = sweep_row(folder, number)
                rows[row["sweep"]] = row
    if tracking_uri and not is_missing(tracking_uri):
        with _skipped(f"the store {without_passwords(tracking_uri)}"):
            _add_stored(rows, tracking_uri)
    return sorted(rows.values(), key=lambda row: row["last_s"] or 0.0, reverse=True)


def _add_stored(rows: dict[str, dict[str, Any]], tracking_uri: str) -> None:
    from orchestrator.storage.tracking import reader  # noqa: PLC0415  (MLflow: seconds)

    for run in reader.list_sweeps(tracking_uri):
        if "sweep" not in run.tags:  # a run of somebody else
            continue
        label, number = run.tags["sweep"], run.tags.get("generation", "")
        if not (number.isascii() and number.isdecimal() and len(number) < 9):
            show(
                f"{label:.80}: cannot be read: its tag 'generation' is not a number\n",
                err=True,
            )
            continue
        if label in rows:
            rows[label]["kept_in"].append("store")
            continue
        row = {
            "sweep": label,
            "generation": int(number),
            "driver": None,
            "running": [],
            "heartbeat": None,
            "kept_in": ["store"],
        }
        state, counts = run.tags.get("state"), [run.metrics.get(name, -1) for name in _COUNTS]
        nodes = run.tags.get("latest.nodes", run.params.get("nodes"))
        if state in ("complete", "stopped") and min(counts) >= 0 and nodes is not None:
            ended, expected, failed = map(int, counts)
            rows[label] = row | {
                "state": state,
                "trials": {
                    "ended": ended,
                    "expected": expected,
                    "at_most": False,
                    "failed": failed,
                    "outcomes": None,  # only the trials have them
                    "last_ended_s": None,
                },
                "last_s": run.end_ms / 1000,
                # MLflow has text only (`to_params` of the report joins them).
                "nodes": nodes.split(", "),
            }
            continue
        with _skipped(label):
            name = label.removesuffix(f"#{number}")
            record = reader.read_stored_sweep(tracking_uri, name, int(number))
            outcomes = _outcomes(record.trials, record.expected_trials, run.start_ms / 1000)
            rows[label] = row | {"state": record.state} | outcomes


def _describe(folder: SweepFolder) -> str:
    """Return how far the latest generation of a sweep is; the numbers are of the last plan."""
    generation = folder.generation(folder.latest())
    state = read(generation)
    if state is None:
        return f"{folder.name}: not started\n"
    lines = [f"{state.identity.label}: {_activity(folder, state)}"]
    if not state.sessions:
        return f"{lines[0]}\n"
    session = state.sessions[-1]
    extent = _extent_of_last_plan(state)
    outcomes = Counter(done.outcome.status for done in extent.finished)
    by_status = ", ".join(f"{number} {status}" for status, number in sorted(outcomes.items()))
    is_open = session.may_stop_early and not state.stop_decision
    at_most = "at most " if is_open else ""
    lines.append(
        f"  {len(extent.finished)} of {at_most}{extent.trials} trials ended "
        f"({by_status or 'none yet'}), {extent.suggested_blocks} of {at_most}{extent.blocks} "
        "blocks suggested"
    )
    if holder(folder.path) is not None:
        lines += _describe_running(generation, session.at_s, extent, is_open=is_open)
    if state.stop_decision:
        decision = state.stop_decision
        lines.append(f"  stopped after {decision.blocks} blocks: {decision.reason}")
    failures = _failures(state)
    details = [
        *describe_failures(extent.finished),
        *map(failures.describe, failures.stopped),
    ]
    lines += ["  " + text.replace("\n", "\n  ") for text in details]
    return "\n".join(lines) + "\n"


@dataclass(frozen=True, slots=True)
class _Extent:
    """How large a plan is, and how far: `blocks` and `trials` are its expected numbers."""

    finished: Sequence[FinishedTrial]
    suggested_blocks: int
    blocks: int
    trials: int


def _extent_of_last_plan(state: JournalState) -> _Extent:
    """Return how large the plan of the last session is, and what has ended of it."""
    session = state.sessions[-1]
    finished = [done for done in state.finished.values() if session.includes(done.trial)]
    suggested = [index for index in state.blocks if session.has_block(index)]
    is_final = state.stop_decision or (state.ended and state.ended.state == "complete")
    planned = [index for index in range(session.blocks) if session.has_block(index)]
    blocks = suggested if is_final else planned
    stopped = _failures(state).stopped
    arms = [arm for arm in session.arms if arm not in stopped]
    trials = count_expected(blocks, arms, session.repeats, finished)
    return _Extent(finished, len(suggested), len(blocks), trials)


def _failures(state: JournalState) -> FailureLimit:
    """Return the limit of equal failures of the last session after all outcomes of its plan."""
    session = state.sessions[-1]
    limit = FailureLimit(session.failures, state.identity.code_facts.get("code"))
    for done in state.outcomes(retry_failed=False):
        if session.includes(done.trial):
            limit.add_outcome(done)
    return limit


def _describe_running(
    generation: Path, begun_s: float, extent: _Extent, *, is_open: bool
) -> Iterator[str]:
    """Yield a line for each job that the start of `begun_s` runs, and one for the time left."""
    now_s = time.time()
    for at_s, job in read_running(generation, begun_s):
        yield f"  runs {job}, for {duration(now_s - at_s)}"
    ended = sum(done.ended_s >= begun_s for done in extent.finished)
    if ended > 1:  # one trial is no pace
        left = duration((now_s - begun_s) / ended * (extent.trials - len(extent.finished)))
        yield f"  {'at most' if is_open else 'about'} {left} left"


_RESUME = "resume with the same run command"


def _activity(folder: SweepFolder, state: JournalState) -> str:
    driver = holder(folder.path)
    if not state.sessions:  # the store has it, and it has begun no trial
        return f"stopped before it began; {_RESUME}" if driver is None else f"starting ({driver})"
    if driver is not None:
        return f"running ({driver}), for {duration(time.time() - state.sessions[-1].at_s)}"
    if state.ended is None:
        return f"stopped abruptly; {_RESUME}"
    return state.ended.state
