"""Error rates of rnnsweep's comparisons, measured in real sweeps on this machine.

    python -m tests.benchmarks.trust [--only PART]... [--quick] [--fresh]

* synthetic: sweeps of equal arms with recorded noise, through the report's own code.
* equal: one implementation declared as two arms with separate trainers, in thirty real sweeps.
* variants: the same with two equal variants of one implementation, in ten real sweeps.
* slowdown: slowdowns of 20 % and 5 % in one arm are detected, with `blocks: auto`.
* hog: processes that load every core in the middle of a sweep are detected and change no verdict.
* adaptive: arms timed in slices get the verdicts of whole trainings in a tenth of the time, and
  stopping them early causes no bias.

It takes some forty minutes on two cores of an idle machine: only the hog may disturb it. Findings
are kept, so that the next start resumes; `--fresh` starts from scratch. `--quick` runs a few sweeps
of each part to check that they work; its findings have no value. Results are
tests/benchmarks/results/trust.json and trust.txt, or files next to the sweeps with `--quick`. The
exit code is 1 if a promise is broken.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from orchestrator.cli.output import quiet
from tests.benchmarks import rig
from tests.benchmarks.trusting import real, synthetic
from tests.benchmarks.trusting.findings import Finding, Notebook

RESULTS = Path(__file__).with_name("results")
PACKAGES = ("ray", "optuna", "mlflow", "keras", "torch", "numpy", "scipy")


def main() -> None:
    """Run the parts, then print and write promises and findings."""
    parser = rig.arguments(__doc__)
    parts = ("synthetic", "slowdown", "equal", "variants", "hog", "adaptive")
    parser.add_argument("--only", action="append", choices=parts, help="this part, or these")
    parser.add_argument("--quick", action="store_true", help="only check that it works")
    parser.add_argument("--fresh", action="store_true", help="start from scratch")
    parser.add_argument("--home", type=Path, default=Path("rnnsweep-data"), help="for its sweeps")
    asked = parser.parse_args()
    name = "trust-quick" if asked.quick else "trust"
    output = asked.output or (asked.home if asked.quick else RESULTS)
    notebook = Notebook.open(output / f"{name}.json", fresh=asked.fresh)
    notebook.environment = rig.environment(*PACKAGES)
    home = asked.home / notebook.begun
    home.mkdir(parents=True, exist_ok=True)
    draws = 60 if asked.quick else 400
    run: dict[str, Callable[[], Sequence[Finding]]] = {
        "synthetic": lambda: synthetic.run(draws),
        "slowdown": lambda: real.slowdown(home, notebook, *((1, 1) if asked.quick else (5, 10))),
        "equal": lambda: real.equal(home, notebook, 2 if asked.quick else 30),
        "variants": lambda: real.equal(home, notebook, 2 if asked.quick else 10, ("one", "other")),
        "hog": lambda: real.hog(home, notebook, 9 if asked.quick else 12),
        "adaptive": lambda: [
            *real.adaptive(home, notebook, 40 if asked.quick else 500),
            *synthetic.stopping(draws),
        ],
    }
    try:
        with quiet(home / "proof.log") as console:
            for part in asked.only or parts:
                began_s = time.monotonic()
                notebook.conclude(part, run[part](), time.monotonic() - began_s)
                console.print(notebook.text(part))
    except real.Interrupted as interrupted:
        print(f"stopped in the sweep {interrupted}: resume with the same command")
        sys.exit(3)
    kept = all(finding.kept for part in notebook.findings.values() for finding in part)
    heading = f"Trust\n{', '.join(map(' '.join, notebook.environment.items()))}"
    text = "\n\n".join([heading, *map(notebook.text, notebook.seconds)])
    (output / f"{name}.txt").write_text(f"{text}\n", encoding="utf-8")
    print(f"\nwritten: {output / name}.json and .txt")
    sys.exit(0 if kept else 1)


if __name__ == "__main__":
    main()
