"""Milliseconds per training step of each implementation, compared with plain scripts.

One task: the same data in the same order from the same initial weights. rnnsweep's arms are whole
trials through `python -m workloads`; each is paired with a plain Keras script of the same backend
and layer, which calls `fit`, for the kernel `fused` on what `rnnsweep.convert` returned. In each
round both sides of a pair run one right after the other, in a seeded random order.

Target: an arm takes at most 1.03 × as long as its script. If the interval covers the target, the
verdict is open.
"""

import math
import random
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack, closing
from dataclasses import asdict
from fnmatch import fnmatchcase
from pathlib import Path
from statistics import median
from typing import Any

from infra.benchmarks import rig
from infra.benchmarks.contenders.pairs import IMPLEMENTATIONS, Asked, Pair, write_question
from orchestrator.analysis.statistics.estimates import Estimate, exponential, t_interval

_AT_MOST = 1.03
_COLUMNS = {
    "step_ms": ".2f",
    "fit_ms": ".2f",
    "ratio": ".3f",
    "low": ".3f",
    "high": ".3f",
    "at_most": ".2f",
    "verdict": "",
    "min_loss": ".6f",
    "max_loss": ".6f",
    "min_val_loss": ".6f",
    "max_val_loss": ".6f",
}


def main() -> None:
    parser = rig.arguments(__doc__)
    parser.add_argument("--rounds", type=int, default=7, help="rounds after the warm-up")
    parser.add_argument("--steps", type=int, default=40, help="steps per epoch")
    parser.add_argument("--only", nargs="+", default=["*"], metavar="PATTERN", help="'torch/*'")
    parser.add_argument("--device", choices=tuple(IMPLEMENTATIONS), default="cpu")
    options = parser.parse_args()
    chosen = [
        name
        for name in IMPLEMENTATIONS[options.device]
        if any(fnmatchcase(name, pattern) for pattern in options.only)
    ]
    environment = rig.environment("keras")
    with tempfile.TemporaryDirectory() as scratch, ExitStack() as stack:
        question = write_question(Path(scratch) / "question.npz", options.device, options.steps)
        pairs = [stack.enter_context(closing(Pair(name, question))) for name in chosen]
        answers: dict[str, list[Asked]] = {name: [] for name in chosen}
        order = random.Random(0)
        for number in range(options.rounds + 1):
            for pair in order.sample(pairs, k=len(pairs)):
                asked, name = pair.ask(order), pair.implementation
                times = f"{asked.arm.step_ms:.2f} ms, script {asked.reference.step_ms:.2f} ms"
                print(f"round {number}: {name} {times}", file=sys.stderr, flush=True)
                if number:  # the first round is the warm-up
                    answers[name].append(asked)
        rows = [_row(pair, answers[pair.implementation]) for pair in pairs]
        figures = {
            "trainers": {pair.facts["backend"]: pair.facts for pair in pairs},
            "device": options.device,
            "settings": question.settings,
            "pairs": rows,
            "rounds": {
                name: [asdict(answer) for answer in answers_of_name]
                for name, answers_of_name in answers.items()
            },
        }
        lines = [
            f"A training step, compared with plain scripts: medians of {options.rounds} rounds",
            rig.table(rows, _COLUMNS),
        ]
        rig.publish(options.output, f"steps-{options.device}", environment, lines, **figures)


def _row(pair: Pair, answers: Sequence[Asked]) -> dict[str, Any]:
    # The losses are the lowest and the highest of both sides.
    interval = t_interval([math.log(asked.ratio) for asked in answers])
    ratio = exponential(interval) if interval else None
    sides = [side.metrics for asked in answers for side in (asked.arm, asked.reference)]
    return {
        "name": pair.implementation,
        "rounds": len(answers),
        "step_ms": median(asked.arm.step_ms for asked in answers),
        "fit_ms": median(asked.reference.step_ms for asked in answers),
        "ratio": ratio.value if ratio else answers[0].ratio,
        "low": ratio.low if ratio and ratio.high < math.inf else None,
        "high": ratio.high if ratio and ratio.high < math.inf else None,
        "at_most": _AT_MOST,
        "verdict": verdict(ratio, _AT_MOST),
        **{
            f"{edge.__name__}_{name}": edge(metrics[name] for metrics in sides)
            for name in ("loss", "val_loss")
            for edge in (min, max)
        },
    }


def verdict(ratio: Estimate | None, at_most: float) -> str:
    if ratio is None or ratio.low <= at_most < ratio.high:
        return "open"
    return "reached" if ratio.high <= at_most else "missed"


if __name__ == "__main__":
    main()
