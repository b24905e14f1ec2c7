"""How much other work on the machine changes the ratio of two arms' times: its bias.

One sweep of five implementations on three backends, as whole trainings and in interleaved slices.
After so many minutes it reports what it has; the same command resumes. The largest biases are
copied into `orchestrator/analysis/statistics/verdicts.py`, where verdicts read them.
"""

import contextlib
import itertools
import math
import os
import signal
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import pandas as pd
from scipy.special import stdtrit

from orchestrator.analysis.statistics.verdicts import bias_kind
from orchestrator.cli.output import quiet
from orchestrator.core.trial import FinishedTrial
from orchestrator.storage.home import SweepFolder, sweep_home
from orchestrator.storage.journal import JOURNAL_FILE
from tests.benchmarks import rig
from tests.benchmarks.trusting import real
from tests.building.specs import build_spec_text

QUIET, SECOND = "quiet", "second sweep"
CYCLE = (QUIET, "every core", "one core")
ROUNDS = ((*CYCLE, *CYCLE, SECOND), (SECOND, *CYCLE, *CYCLE))
"""The other work by block and repeat, so that the second sweep starts once."""

ARMS = (
    "tensorflow/portable",
    "tensorflow/portable+xla",
    "jax/portable",
    "torch/portable",
    real.FUSED,
)
CONFIGS = ({"units": 320, "epochs": 2}, {"units": 64, "epochs": 12})
SMALL = {key: value for key, value in real.SMALL.items() if key != "epochs"}
_POLL_S = 0.1  # a trial takes longer until its model is built and it waits at the gate


def sweep(name: str, arms: Sequence[str], configs: Sequence[dict[str, int]], **changes: Any) -> str:
    return build_spec_text(
        {"hardware": ["cpu"], "settings": SMALL, **changes},
        name=name,
        workload="tests.benchmarks.trusting.workload:run",
        configs=list(configs),
        objectives={"step_ms": "minimize"},
        implementations=list(arms),
    )


def ended(home: Path, name: str) -> int:
    path = SweepFolder(home, name).generation(1) / JOURNAL_FILE
    return path.read_bytes().count(b'"outcome":') if path.exists() else 0


@contextlib.contextmanager
def other_work(home: Path, minutes: float, show: Callable[[str], None]) -> Iterator[None]:
    """Change the other work from round to round; interrupt the sweep when the minutes are over."""
    over, until_s, gate = threading.Event(), time.monotonic() + 60 * minutes, home / "gate"
    plan = [work for rounds in ROUNDS for work in rounds]
    gate.unlink(missing_ok=True)

    def work() -> None:
        now, processes = "", list[subprocess.Popen[bytes]]()
        try:
            while not over.wait(_POLL_S) and time.monotonic() < until_s:
                place = min(ended(home, "bias") // (2 * len(ARMS)), len(plan) - 1)
                if plan[place] != now:
                    gate.unlink(missing_ok=True)
                    end(processes)
                    now, processes = plan[place], start(plan[place], home)
                    show(f"{time.strftime('%H:%M:%S')} round {place + 1} of {len(plan)}: {now}")
                    gate.touch()
        except OSError as error:
            show(f"stopped: {error}")
        if not over.is_set():
            os.kill(os.getpid(), signal.SIGINT)
        end(processes)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def start(work: str, home: Path) -> list[subprocess.Popen[bytes]]:
    """Start other work, and return once it is busy; OSError if the second sweep does not start."""
    if work != SECOND:
        cpus = sorted(os.sched_getaffinity(0))
        processes = real.burn({QUIET: [], "one core": cpus[:1]}.get(work, cpus))
        time.sleep(0.3)
        return processes
    own = home / f"second-{time.time():.0f}"
    own.mkdir()
    spec = sweep("second", (real.FUSED,), [{"units": 256, "epochs": n} for n in (1, 100_000)])
    (own / "second.yaml").write_text(spec, encoding="utf-8")
    command = [sys.executable, "-m", "orchestrator", "run", str(own / "second.yaml")]
    environment = {**os.environ, "RNNSWEEP_HOME": str(own)}
    process = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL)
    for _ in range(120):
        time.sleep(1.0)
        if ended(own, "second"):  # the endless trial has begun
            return [process]
    end([process])
    raise OSError("the second sweep did not start: see bias.log")


def end(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    for process in processes:
        process.terminate()
        process.wait()


def biases(trials: Sequence[FinishedTrial]) -> list[dict[str, Any]]:
    """Return the bias of each pair of arms by each other work, the largest first."""
    # `at_most` is the upper end of the 95 % interval, by the common deviation of one mode's rounds.
    logs: dict[tuple[str, int, int], dict[str, float]] = defaultdict(dict)
    for trial in trials:
        if trial.status == "complete":
            key = trial.arm.measure, trial.block, trial.repeat
            logs[key][trial.arm.implementation] = math.log(trial.metrics["step_ms"])
    ratios: dict[tuple[str, int, str, str, str], list[float]] = defaultdict(list)
    for (mode, block, repeat), own in logs.items():
        own[""] = 0.0  # the other arm of one alone
        for one, other in itertools.combinations(sorted(own), 2):
            ratios[mode, block, one, other, ROUNDS[block][repeat]].append(own[one] - own[other])
    rows = []
    for (mode, block, one, other, work), busy in ratios.items():
        still = ratios.get((mode, block, one, other, QUIET))
        if work != QUIET and still:
            bias = fmean(busy) - fmean(still)
            alike = [v for k, v in ratios.items() if k[0] == mode and bool(k[2]) == bool(one)]
            half = _half_width(alike) * math.sqrt(1 / len(busy) + 1 / len(still))
            kind = bias_kind([text for text in (one, other) if text], alike=bool(one))
            row = {
                "name": " against ".join(filter(None, (one, other) if bias > 0 else (other, one))),
                "mode": mode,
                "kind": kind,
                "units": CONFIGS[block]["units"],
                "work": work,
                "rounds": len(busy),
                "bias": math.exp(abs(bias)),
                "at_most": math.exp(abs(bias) + half),
            }
            rows.append(row)
    return sorted(rows, key=lambda row: -row["at_most"])


def _half_width(groups: Sequence[Sequence[float]]) -> float:
    """Return the half-width of one value, from the deviation within groups; inf if unknown."""
    freedom = sum(len(values) - 1 for values in groups)
    squares = math.fsum((value - fmean(own)) ** 2 for own in groups for value in own)
    return stdtrit(freedom, 0.975) * math.sqrt(squares / freedom) if freedom else math.inf


def main() -> None:
    parser = rig.arguments(__doc__)
    parser.add_argument("--minutes", type=float, default=11.5, help="stop after so long")
    asked, home = parser.parse_args(), sweep_home()
    home.mkdir(parents=True, exist_ok=True)
    environment = rig.environment("ray", "keras", "tensorflow", "jax", "torch")
    changes: dict[str, Any] = {"measure": {"slices": [8, 8]}, "repeats": len(ROUNDS[0])}
    changes["hardware"] = ["cpu", {"class": "cpu", "measure": "timing"}]
    changes["settings"] = {**SMALL, "timed_steps": 0, "gate": str(home / "gate")}
    spec = sweep("bias", ARMS, CONFIGS, **changes)
    with quiet(home / "bias.log") as console, other_work(home, asked.minutes, console.print):
        trials = rig.run(spec, home)[0].record.trials
    report(trials, environment, asked.output)


def report(
    trials: Sequence[FinishedTrial], environment: dict[str, str], output: Path | None
) -> None:
    rows, marks = biases(trials), defaultdict[str, list[bool]](list)
    for trial in trials:
        marks[ROUNDS[trial.block][trial.repeat]].append(bool(trial.disturbance))
    kinds = pd.DataFrame(rows).groupby(["mode", "kind"])
    largest = {" ".join(kind): own["at_most"].iloc[0] for kind, own in kinds}
    lines = [
        "Bias of a ratio of times by other work: a factor, and the upper end of its 95 % interval",
        *(f"marked as disturbed: {sum(own)} of {len(own)}, {work}" for work, own in marks.items()),
        *(f"largest, {kind}: {factor:.2f}" for kind, factor in largest.items()),
        kinds.head(5).sort_values(["mode", "kind"]).to_string(index=False, float_format="%.2f"),
    ]
    rig.publish(output, "bias", environment, lines, largest=largest, biases=rows)


if __name__ == "__main__":
    main()
