"""Milliseconds per training step of a user's own model, compared with bare Keras `fit`, in slices.

The model and the data are from sweeps/own_model.py. With the kernel `auto` it is the model as it is
written; for `torch/fused` the script calls `rnnsweep.convert` before `fit`. rnnsweep's trial and
the script take turns by slices, in a seeded random order, in processes that are started anew for
each repeat. The interval is over the repeats.

Target: a step takes at most 1.03 × as long as in the script. If the interval covers the target, the
verdict is open.
"""

import json
import math
import os
import random
import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import fmean, median
from typing import IO, Any

from infra.benchmarks import rig
from infra.benchmarks.steps import verdict
from orchestrator.analysis.statistics.estimates import exponential, t_interval
from orchestrator.execution.trainer_process import TrainerProcess
from workloads.implementations import parse_implementation
from workloads.process import environment_for
from workloads.protocol import Failure, Finish, Ready, Result, Slice, SliceDone, TrialRequest
from workloads.registry import own_model_name
from workloads.resources import usable_cpus

_FOLDER = Path(__file__).resolve().parents[2] / "sweeps"
_SETTINGS = {"window": 24, "units": 64, "batch_size": 256}
_AT_MOST = 1.03
_SLICE_S = 1.0
_PATIENCE_S = 120.0
_COLUMNS = {
    "step_ms": ".2f",
    "fit_ms": ".2f",
    "ratio": ".3f",
    "low": ".3f",
    "high": ".3f",
    "at_most": ".2f",
    "verdict": "",
}


def main() -> None:
    parser = rig.arguments(__doc__)
    parser.add_argument("--repeats", type=int, default=6, help="how often all processes start anew")
    parser.add_argument("--slices", type=int, default=12, help="slices of each side in a repeat")
    parser.add_argument(
        "--only",
        nargs="+",
        default=["tensorflow/auto", "jax/auto", "torch/auto", "torch/fused"],
        metavar="IMPLEMENTATION",
    )
    options = parser.parse_args()
    environment, rows, repeats = rig.environment("keras"), [], dict[str, list[Any]]()
    for implementation in options.only:
        repeats[implementation] = [
            _repeat(implementation, seed, options.slices) for seed in range(options.repeats)
        ]
        rows.append(_row(implementation, repeats[implementation]))
        print(f"{implementation}: {rows[-1]['ratio']:.3f}", file=sys.stderr, flush=True)
    lines = [
        f"A step of an own model, compared with bare Keras fit: {options.repeats} repeats of"
        f" {options.slices} slices",
        rig.table(rows, _COLUMNS),
    ]
    figures = {"settings": _SETTINGS, "rows": rows, "repeats": repeats}
    rig.publish(options.output, "own-model", environment, lines, **figures)


def _repeat(implementation: str, seed: int, slices: int) -> list[tuple[float, float]]:
    """Return the milliseconds of a step of each pair of slices: rnnsweep's, and the script's."""
    order, asked = random.Random(seed), parse_implementation(implementation)
    with ExitStack() as stack:
        trial = stack.enter_context(
            TrainerProcess(asked, "cpu", python_path=[str(_FOLDER)], environ=os.environ)
        )
        trial.request(
            TrialRequest(
                own_model_name("own_model:build", "own_model:load"),
                implementation,
                _SETTINGS,
                seed=seed,
                measure="timing",
                slice_s=_SLICE_S,
            )
        )
        ready = _await(trial, Ready)
        script = stack.enter_context(_start_script(implementation, seed))
        stack.callback(script.kill)

        def slice_of_trial() -> float:
            trial.send(Slice(ready.slice_steps))
            return float(_await(trial, SliceDone).step_ms)

        def slice_of_script() -> float:
            assert script.stdin is not None and script.stdout is not None
            return _ask(script.stdin, script.stdout, ready.slice_steps)

        sides = [slice_of_trial, slice_of_script]
        pairs = list[tuple[float, float]]()
        for _ in range(slices + 1):
            times = {side: side() for side in order.sample(sides, k=2)}
            pairs.append((times[slice_of_trial], times[slice_of_script]))
        trial.send(Finish())
        _await(trial, Result)
    return pairs[1:]  # the first pair is the warm-up


def _await(trial: TrainerProcess, kind: type[Any]) -> Any:
    """Return the next event of a kind."""
    while True:
        event = trial.next_event(_PATIENCE_S)
        assert event is not None, f"no {kind.__name__} within {_PATIENCE_S} s"
        assert not isinstance(event, Failure), event
        if isinstance(event, kind):
            return event


def _start_script(implementation: str, seed: int) -> subprocess.Popen[str]:
    threads = usable_cpus()
    job = {
        "implementation": implementation,
        "settings": _SETTINGS,
        "folder": str(_FOLDER),
        "threads": threads,
        "seed": seed,
    }
    variables = environment_for(parse_implementation(implementation), "cpu")
    return subprocess.Popen(
        [sys.executable, "-m", "infra.benchmarks.contenders.own_fit", json.dumps(job)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, **variables, "PJRT_NPROC": str(threads)},
    )


def _ask(stdin: IO[str], stdout: IO[str], steps: int) -> float:
    stdin.write(f"{steps}\n")
    stdin.flush()
    line = stdout.readline()
    assert line, "the script has ended"
    answer = json.loads(line)
    return 1_000 * float(answer["seconds"]) / float(answer["steps"])  # of whole epochs


def _row(name: str, repeats: Sequence[Sequence[tuple[float, float]]]) -> dict[str, Any]:
    logs = [fmean(math.log(trial / script) for trial, script in pairs) for pairs in repeats]
    interval, every = t_interval(logs), [pair for pairs in repeats for pair in pairs]
    ratio = exponential(interval) if interval else None
    return {
        "name": name,
        "step_ms": median(trial for trial, _ in every),
        "fit_ms": median(script for _, script in every),
        "ratio": ratio.value if ratio else math.exp(fmean(logs)),
        "low": ratio.low if ratio and ratio.high < math.inf else None,
        "high": ratio.high if ratio and ratio.high < math.inf else None,
        "at_most": _AT_MOST,
        "verdict": verdict(ratio, _AT_MOST),
    }


if __name__ == "__main__":
    main()
