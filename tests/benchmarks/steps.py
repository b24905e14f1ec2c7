"""Milliseconds per training step of each implementation, compared with plain scripts.

    python -m tests.benchmarks.steps [--rounds 7] [--only 'torch/*'] [--device gpu]

One task (`char_rnn` on windows of Python's documentation, one LSTM of 128 units), the same data in
the same order from the same initial weights. rnnsweep's arms are whole trials through `python -m
workloads`; each is paired with a bare Keras script of the same backend and layer, and the fused
ones with a hand-written PyTorch loop over `nn.LSTM`. Every contender is a process of its own that
stays warm. In each round both sides of a pair run one right after the other, pairs and sides in a
seeded random order. Ratios are taken within pairs.

Targets: an arm at most 1.03 × its bare Keras script, torch/fused at most 1.05 × the hand-written
loop. If the interval covers the target, the verdict is inconclusive.
"""

from __future__ import annotations

import random
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import asdict
from fnmatch import fnmatchcase
from pathlib import Path
from statistics import median
from typing import Any

from orchestrator.analysis.statistics.estimates import Estimate, geometric_mean
from tests.benchmarks import rig
from tests.benchmarks.contenders.pairs import (
    IMPLEMENTATIONS,
    Asked,
    Pair,
    ask,
    opened,
    write_question,
)


def main() -> None:
    """Print the table, and write it with all rounds if requested."""
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
        pairs = [stack.enter_context(closing(opened(name, question))) for name in chosen]
        answers: dict[str, list[Asked]] = {name: [] for name in chosen}
        order = random.Random(0)
        for number in range(options.rounds + 1):
            for pair in order.sample(pairs, k=len(pairs)):
                asked = ask(pair, order)
                _print_progress(f"round {number}" if number else "warm-up", pair, asked)
                if number:
                    answers[pair.arm.implementation].append(asked)
        rows = [_row(pair, answers[pair.arm.implementation]) for pair in pairs]
        figures = {
            "trainers": {pair.arm.facts["backend"]: pair.arm.facts for pair in pairs},
            "device": options.device,
            "settings": question.settings,
            "pairs": rows,
            "rounds": {name: [asdict(one) for one in own] for name, own in answers.items()},
        }
        rig.publish(options.output, f"steps-{options.device}", environment, _lines(rows), **figures)


def _lines(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    lines = [
        "A training step, compared with plain scripts",
        f"{'median ms a step':<27}{'rnnsweep':>9}  {'reference':<30}{'ratio (95 %)':<22}to reach",
    ]
    for row in rows:
        ratio = f"{row['ratio']:.3f} ({row['low']:.3f}–{row['high']:.3f})" if row["high"] else "–"
        reference = "bare Keras" if row["reference"].startswith("bare") else row["reference"]
        lines.append(
            f"{row['implementation']:<27}{row['step_ms']:>9.2f}  "
            f"{row['reference_step_ms']:>6.2f} {reference:<23}"
            f"{ratio:<22}{row['to_reach']:.2f}: {row['verdict']}"
        )
    for name in ("loss", "val_loss"):
        low, high = (edge(row[name][at] for row in rows) for at, edge in enumerate((min, max)))
        lines.append(f"{name}: {low:.6f} to {high:.6f} over all contenders and rounds")
    return [*lines, f"{rows[0]['rounds']} rounds"]


def _row(pair: Pair, answers: Sequence[Asked]) -> dict[str, Any]:
    """Return the medians of a pair, and the geometric mean of its ratios with a 95 % interval."""
    ratio = geometric_mean([asked.ratio for asked in answers])
    values = {
        name: [side.metrics[name] for asked in answers for side in (asked.arm, asked.reference)]
        for name in ("loss", "val_loss")
    }
    return {
        "implementation": pair.arm.implementation,
        "rounds": len(answers),
        "step_ms": median(asked.arm.step_ms for asked in answers),
        "reference": pair.reference.name,
        "reference_step_ms": median(asked.reference.step_ms for asked in answers),
        "ratio": ratio.value if ratio else answers[0].ratio,
        "low": ratio.low if ratio else None,
        "high": ratio.high if ratio else None,
        "to_reach": pair.at_most,
        "verdict": _verdict(ratio, pair.at_most),
        **{name: (min(both), max(both)) for name, both in values.items()},
    }


def _verdict(ratio: Estimate | None, at_most: float) -> str:
    """Return whether the whole interval reaches the limit, misses it, or neither."""
    if ratio is None or ratio.low <= at_most < ratio.high:
        return "inconclusive"
    return "reached" if ratio.high <= at_most else "missed"


def _print_progress(when: str, pair: Pair, asked: Asked) -> None:
    print(
        f"{when}: {pair.arm.name} {asked.arm.step_ms:.2f} ms, {pair.reference.name}"
        f" {asked.reference.step_ms:.2f} ms",
        file=sys.stderr,
        flush=True,
    )


if __name__ == "__main__":
    main()
