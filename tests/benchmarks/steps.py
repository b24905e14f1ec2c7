"""Milliseconds per training step of each implementation, compared with plain scripts.

    python -m tests.benchmarks.steps [--rounds 7] [--only 'torch/*'] [--device gpu] [--output FILE]

One task (`char_rnn` on windows of Python's documentation, one LSTM of 128 units), the same data in
the same order from the same initial weights. rnnsweep's arms are whole trials through `python -m
workloads`; each is paired with a bare Keras script of the same backend and layer, and the fused
ones with a hand-written PyTorch loop over `nn.LSTM`. Every contender is a process of its own that
stays warm. In each round both sides of a pair run one right after the other, pairs and sides in a
seeded random order. Ratios are taken within pairs. A pair is measured again if others loaded the
machine meanwhile.

Targets: an arm at most 1.03 × its bare Keras script, torch/fused at most 1.05 × the hand-written
loop. If the interval covers the target, the verdict is inconclusive.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from contextlib import ExitStack, closing
from fnmatch import fnmatchcase
from pathlib import Path

from tests.benchmarks import rig
from tests.benchmarks.contenders import question as ordinary
from tests.benchmarks.contenders.pairs import IMPLEMENTATIONS, Asked, Pair, ask, ask_quietly, opened
from tests.benchmarks.contenders.processes import Question
from tests.benchmarks.contenders.table import as_json, as_text
from workloads.cpus import usable_cpus
from workloads.settings.char_rnn import CharRnnSettings

_EPOCHS = 2


def main() -> None:
    """Print the table, and write it with all rounds if requested."""
    options = _parser().parse_args()
    chosen = [name for name in IMPLEMENTATIONS[options.device] if _is_selected(name, options.only)]
    environment = rig.environment("keras")
    with tempfile.TemporaryDirectory() as scratch, ExitStack() as stack:
        question = _question(Path(scratch) / "question.npz", options)
        pairs = [opened(name, question) for name in chosen]
        for pair in pairs:
            stack.enter_context(closing(pair.arm))
            stack.enter_context(closing(pair.reference))
        rounds = _rounds(pairs, options.rounds, random.Random(options.seed))
        text = as_text(environment, pairs, rounds)
        print(text)
        if options.output is not None:
            result = as_json(environment, question, pairs, rounds)
            rig.keep(options.output.parent, options.output.stem, result, text)


def _rounds(pairs: list[Pair], count: int, order: random.Random) -> list[dict[str, Asked]]:
    """Return answers by implementation, round by round, after a warm-up round."""
    for pair in order.sample(pairs, k=len(pairs)):
        _print_progress("warm-up", pair, ask(pair, order))
    rounds = []
    for number in range(1, count + 1):
        answers: dict[str, Asked] = {}
        for pair in order.sample(pairs, k=len(pairs)):
            asked = answers[pair.arm.implementation] = ask_quietly(pair, order)
            _print_progress(f"round {number}", pair, asked)
        rounds.append(answers)
    return rounds


def _print_progress(when: str, pair: Pair, asked: Asked) -> None:
    print(
        f"{when}: {pair.arm.name} {asked.arm.step_ms:.2f} ms, {pair.reference.name}"
        f" {asked.reference.step_ms:.2f} ms; others kept {asked.neighbours_cpus:.2f} CPUs busy",
        file=sys.stderr,
        flush=True,
    )


def _question(data: Path, options: argparse.Namespace) -> Question:
    asked = ordinary.ask(options.steps, _EPOCHS)
    ordinary.write(data, asked)
    settings = CharRnnSettings(**asked).model_dump()
    return Question(settings, options.steps, data, options.device, usable_cpus())


def _is_selected(name: str, patterns: list[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=7, help="rounds after the warm-up")
    parser.add_argument("--steps", type=int, default=40, help="steps per epoch")
    parser.add_argument(
        "--only", nargs="+", default=["*"], metavar="PATTERN", help="implementations: 'torch/*'"
    )
    parser.add_argument("--device", choices=tuple(IMPLEMENTATIONS), default="cpu")
    parser.add_argument("--seed", type=int, default=0, help="seed of the order of pairs and sides")
    parser.add_argument(
        "--output", type=Path, metavar="FILE", help="write the result as FILE.json and FILE.txt"
    )
    return parser


if __name__ == "__main__":
    main()
