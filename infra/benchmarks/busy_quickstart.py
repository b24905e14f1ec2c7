"""How many of the quickstart's verdicts are given beside other work, and whether they are right.

`sweeps/quickstart.yaml` runs some times on the machine as it is, and then several times while a
process takes half of one core. The verdicts on the speed of an arm and on what its
training achieved are compared. A sweep that the store has already is only read, so that the
benchmark resumes.
"""

import argparse
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from infra.benchmarks import rig
from infra.benchmarks.other_work import other_work
from orchestrator.analysis.contrasts.contrast import Question, Verdict
from orchestrator.analysis.summary import summarise
from orchestrator.api import run_sweep
from orchestrator.report.words import WORDS, verdict_word
from orchestrator.storage.home import sweep_home
from orchestrator.storage.tracking.mlflow.address import default_mlflow_uri

Verdicts = Mapping[str, Mapping[str, Any]]
"""By question: "ARM: speed" or "ARM: METRIC"."""

SPEC = Path(__file__).resolve().parents[2] / "sweeps/quickstart.yaml"


def verdicts(path: Path, home: Path, suffix: str) -> Verdicts:
    """Run the spec under its name and the suffix; return the verdict on each arm."""
    spec = yaml.safe_load(path.read_text(encoding="utf-8"))
    spec["name"] += suffix
    ended = run_sweep(spec, home=home, tracking_uri=default_mlflow_uri(home, {}))
    assert ended.stopped is None, ended.stopped
    given: dict[str, dict[str, Any]] = {}
    found = summarise(ended.record)
    for contrast in found.contrasts:
        is_speed = contrast.metric == found.time_metric
        is_asked = is_speed or contrast.metric in found.results
        if contrast.question == Question.BASELINE and is_asked:
            arm, shown = contrast.subject.partition(" on ")[0], contrast.estimate
            given[f"{arm}: {'speed' if is_speed else contrast.metric}"] = {
                "verdict": verdict_word(contrast),
                "qualifier": contrast.qualifier,
                "interval": [round(end, 4) for end in (shown.value, shown.low, shown.high)],
            }
    return given


def summary(quiet: Sequence[Verdicts], busy: Sequence[Verdicts]) -> dict[str, dict[str, Any]]:
    """Count the verdicts on each question, and those decided when busy that no quiet run gives.

    Where no quiet run decides a question, a busy one cannot contradict.
    """
    counts = {}
    for question in quiet[0]:
        usual, beside = (
            Counter(run[question]["verdict"] for run in runs if question in run)
            for runs in (quiet, busy)
        )
        decided = {verdict for verdict in usual if verdict != WORDS[Verdict.OPEN]}
        contradicting = sum(
            number
            for verdict, number in beside.items()
            if decided and verdict not in {*decided, WORDS[Verdict.OPEN]}
        )
        counts[question] = {"quiet": usual, "busy": beside, "contradicting": contradicting}
    return counts


def in_words(verdicts: Counter[str]) -> str:
    return ", ".join(f"{verdict} {number}" for verdict, number in verdicts.most_common())


def main() -> None:
    parser = rig.arguments(__doc__)
    parser.add_argument("--quiet-runs", type=int, default=3, help="runs on the machine as it is")
    parser.add_argument("--runs", type=int, default=10, help="runs beside a busy process")
    parser.add_argument("--share", type=int, default=50, help="its share of one core, in percent")
    parser.add_argument("--spec", type=Path, default=SPEC, help="a sweep instead of the quickstart")
    asked: argparse.Namespace = parser.parse_args()
    home = sweep_home()
    home.mkdir(parents=True, exist_ok=True)
    environment = rig.environment("ray", "keras", "tensorflow")
    quiet = []
    for number in range(1, asked.quiet_runs + 1):
        quiet.append(verdicts(asked.spec, home, f"-quiet-{number}" if number > 1 else ""))
        print(f"quiet run {number}:", quiet[-1], flush=True)
    busy = []
    core = min(os.sched_getaffinity(0))
    for number in range(1, asked.runs + 1):
        with other_work(home) as work:
            work.set({core: asked.share})
            busy.append(verdicts(asked.spec, home, f"-busy-{number}"))
        print(f"busy run {number}:", busy[-1], flush=True)
    counts = summary(quiet, busy)
    lines = [
        f"The quickstart's verdicts in {len(quiet)} runs, and in {len(busy)} runs beside a process "
        f"that takes {asked.share} % of one core",
        *(
            f"{question}: quiet {in_words(counted['quiet'])}; busy {in_words(counted['busy'])}; "
            f"contradicting {counted['contradicting']}"
            for question, counted in counts.items()
        ),
    ]
    rig.publish(
        asked.output, "busy_quickstart", environment, lines, counts=counts, quiet=quiet, busy=busy
    )


if __name__ == "__main__":
    main()
