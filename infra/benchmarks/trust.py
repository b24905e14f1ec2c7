"""Error rates of rnnsweep's comparisons, measured in real sweeps on this machine.

It takes some thirty minutes on two cores of an idle machine.
Findings are kept, so that the next start resumes. Results are infra/benchmarks/results/trust.txt
and trust.json, or files next to the sweeps with `--quick`, whose findings have no value. The exit
code is 1 if a promise is broken.
"""

import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from infra.benchmarks import rig
from infra.benchmarks.trusting import real
from infra.benchmarks.trusting.findings import Finding, Notebook
from orchestrator.cli.output import quiet

RESULTS = Path(__file__).with_name("results")
PACKAGES = ("ray", "optuna", "mlflow", "keras", "torch", "numpy", "scipy")


def main() -> None:
    parser = rig.arguments(__doc__)
    parts = ("slowdown", "equal")
    parser.add_argument("--only", action="append", choices=parts, help="this part, or these")
    parser.add_argument("--quick", action="store_true", help="only check that it works")
    parser.add_argument("--fresh", action="store_true", help="start from scratch")
    parser.add_argument("--home", type=Path, default=Path("rnnsweep-data"), help="keeps its sweeps")
    asked = parser.parse_args()
    name = "trust-quick" if asked.quick else "trust"
    output = asked.output or (asked.home if asked.quick else RESULTS)
    notebook = Notebook.open(output / f"{name}.json", fresh=asked.fresh)
    notebook.environment = rig.environment(*PACKAGES)
    home = asked.home / notebook.begun
    home.mkdir(parents=True, exist_ok=True)
    run: dict[str, Callable[[], Sequence[Finding]]] = {
        "slowdown": lambda: real.slowdown(home, notebook, *((1, 1) if asked.quick else (5, 10))),
        "equal": lambda: real.equal(home, notebook, 2 if asked.quick else 20),
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
