"""The results of the rounds as a table and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from statistics import median
from typing import Any, TypeAlias

from orchestrator.analysis.statistics.estimates import Estimate, geometric_mean
from tests.benchmarks import rig
from tests.benchmarks.contenders.pairs import Asked, Pair
from tests.benchmarks.contenders.processes import Question

Rounds: TypeAlias = Sequence[dict[str, Asked]]


def as_text(environment: Mapping[str, str], pairs: Sequence[Pair], rounds: Rounds) -> str:
    """Return a row per pair, and values of all pairs."""
    return "\n".join([rig.heading(environment), *_lines(pairs, rounds)])


def as_json(
    environment: Mapping[str, str], question: Question, pairs: Sequence[Pair], rounds: Rounds
) -> dict[str, Any]:
    """Return hardware, versions, date, settings and every round."""
    return {
        "format": "rnnsweep-benchmark-steps",
        "version": 2,
        "environment": environment,
        "trainers": {pair.arm.facts["backend"]: pair.arm.facts for pair in pairs},
        "device": question.device,
        "steps": question.steps,
        "settings": question.settings,
        "pairs": [_row(pair, rounds) for pair in pairs],
        "rounds": [
            {name: asdict(asked) for name, asked in one_round.items()} for one_round in rounds
        ],
    }


def _lines(pairs: Sequence[Pair], rounds: Rounds) -> Iterator[str]:
    yield f"{'median ms a step':<27}{'rnnsweep':>9}  {'reference':<30}{'ratio (95 %)':<22}to reach"
    for pair in pairs:
        row = _row(pair, rounds)
        ratio = f"{row['ratio']:.3f} ({row['low']:.3f}–{row['high']:.3f})" if row["high"] else "–"
        yield (
            f"{row['implementation']:<27}{row['step_ms']:>9.2f}  "
            f"{row['reference_step_ms']:>6.2f} {_kind(row['reference']):<23}"
            f"{ratio:<22}{row['to_reach']:.2f}: {row['verdict']}"
        )
    for name in ("loss", "val_loss"):
        values = _values(name, rounds)
        yield f"{name}: {min(values):.6f} to {max(values):.6f} over all contenders and rounds"
    busy = [asked.neighbours_cpus for one_round in rounds for asked in one_round.values()]
    yield (
        f"{len(rounds)} rounds; others kept {median(busy):.2f} CPUs busy (median), at most"
        f" {max(busy):.2f}"
    )


def _kind(reference: str) -> str:
    """Return `bare Keras` for `bare Keras jax/portable`, as the row names the implementation."""
    return "bare Keras" if reference.startswith("bare Keras") else reference


def _values(metric: str, rounds: Rounds) -> list[float]:
    """Return a metric of every contender in every round; all compute the same."""
    return [
        answer.metrics[metric]
        for one_round in rounds
        for asked in one_round.values()
        for answer in (asked.arm, asked.reference)
    ]


def _row(pair: Pair, rounds: Rounds) -> dict[str, Any]:
    asked = [one_round[pair.arm.implementation] for one_round in rounds]
    ratio = geometric_mean([result.ratio for result in asked])
    return {
        "implementation": pair.arm.implementation,
        "step_ms": median(result.arm.step_ms for result in asked),
        "reference": pair.reference.name,
        "reference_step_ms": median(result.reference.step_ms for result in asked),
        "ratio": ratio.value if ratio else asked[0].ratio,
        "low": ratio.low if ratio else None,
        "high": ratio.high if ratio else None,
        "to_reach": pair.at_most,
        "verdict": verdict(ratio, pair.at_most),
    }


def verdict(ratio: Estimate | None, at_most: float) -> str:
    """Return whether the whole interval reaches the limit, misses it, or neither."""
    if ratio is None or ratio.low <= at_most < ratio.high:
        return "inconclusive"
    return "reached" if ratio.high <= at_most else "missed"
