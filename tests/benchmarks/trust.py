"""Whether rnnsweep's comparisons can be trusted: proven on real trainings on this machine.

    python -m tests.benchmarks.trust [--only PART]... [--quick] [--fresh]

* synthetic: sweeps of equal arms with recorded noise, through the report's own code.
* equal: one implementation declared as two arms, in trainers of their own, in thirty real sweeps.
* slowdown: 20 % and 5 % that are built into one arm are found, with `blocks: auto`.
* hog: processes that burn every core in the middle of a sweep are noticed and change no verdict.
* adaptive: arms timed in slices get the verdicts of whole trainings, in a tenth of the time, and
  without a bias from when they stop.

It takes some forty minutes on two cores, and a quiet machine: only the hog is to disturb it. What
has been found is kept, so that the next start goes on; `--fresh` begins anew. `--quick` asks a few
sweeps of each part, to see that all of it works, and its verdicts prove nothing. Written to
tests/benchmarks/results: trust.json and trust.txt; what is quick, beside its sweeps. Ends with 1
where a promise is broken.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path

import psutil

from orchestrator import __version__
from orchestrator.cli.output import quiet
from tests.benchmarks.trusting import adaptive, equal, hog, slowdown, synthetic
from tests.benchmarks.trusting.findings import Finding, Notebook
from tests.benchmarks.trusting.sweeps import Interrupted

RESULTS = Path(__file__).with_name("results")
PARTS = ("synthetic", "slowdown", "equal", "hog", "adaptive")


def main() -> None:
    """Run the parts, print what was promised and what was found, write both."""
    asked = _arguments()
    name = "trust-quick" if asked.quick else "trust"
    output = asked.output or (asked.home if asked.quick else RESULTS)
    notebook = Notebook.open(output / f"{name}.json", fresh=asked.fresh)
    notebook.environment = environment()
    home = asked.home / notebook.begun
    home.mkdir(parents=True, exist_ok=True)
    print(heading(notebook.environment), flush=True)
    try:
        with quiet(home / "proof.log") as console:
            for part in asked.only or PARTS:
                began_s = time.monotonic()
                found = runs(home, notebook, quick=asked.quick)[part]()
                notebook.conclude(part, found, time.monotonic() - began_s)
                for each in found:
                    console.print(each.text())
    except Interrupted as interrupted:
        print(f"stopped in the sweep {interrupted}: the same command goes on with it")
        sys.exit(3)
    text = report(notebook)
    (output / f"{name}.txt").write_text(text, encoding="utf-8")
    print(f"\nwritten: {output / name}.json and .txt")
    sys.exit(0 if all(each.kept for each in notebook.all()) else 1)


def runs(
    home: Path, notebook: Notebook, *, quick: bool
) -> Mapping[str, Callable[[], Sequence[Finding]]]:
    """What each part runs."""
    if quick:
        return {
            "synthetic": lambda: synthetic.run(60),
            "equal": lambda: equal.run(home, notebook, 2),
            "slowdown": lambda: slowdown.run(home, notebook, 0.1),
            "hog": lambda: hog.run(home, notebook, 9),
            "adaptive": lambda: adaptive.run(home, notebook, 40, 60),
        }
    return {
        "synthetic": synthetic.run,
        "equal": lambda: equal.run(home, notebook),
        "slowdown": lambda: slowdown.run(home, notebook),
        "hog": lambda: hog.run(home, notebook),
        "adaptive": lambda: adaptive.run(home, notebook),
    }


def environment() -> dict[str, str]:
    """Hardware, versions and date; how busy the machine was before anything began."""
    packages = ("ray", "optuna", "mlflow", "keras", "torch", "numpy", "scipy")
    return {
        "date": time.strftime("%Y-%m-%d"),
        "cpu": _cpu(),
        "cpus": str(os.cpu_count()),
        "memory": f"{psutil.virtual_memory().total / 2**30:.0f} GiB",
        "load before": f"{os.getloadavg()[0]:.1f}",
        "system": platform.platform(),
        "python": platform.python_version(),
        "rnnsweep": __version__,
        **{package: version(package) for package in packages},
    }


def heading(told: Mapping[str, str]) -> str:
    """A title, and what it was run on."""
    return "Trust\n" + ", ".join(f"{name} {value}" for name, value in told.items())


def report(notebook: Notebook) -> str:
    """All that was found so far."""
    parts = [heading(notebook.environment)]
    for part, seconds in notebook.seconds.items():
        found = [each.text() for each in notebook.all() if each.part == part]
        parts.append("\n".join([f"{part}, {seconds:.0f} s", *found]))
    return "\n\n".join(parts) + "\n"


def _cpu() -> str:
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", action="append", choices=PARTS, help="this part, or these")
    parser.add_argument("--quick", action="store_true", help="see that it works; proves nothing")
    parser.add_argument("--fresh", action="store_true", help="begin anew")
    parser.add_argument("--output", type=Path, help="a folder for what was found")
    parser.add_argument("--home", type=Path, default=Path("rnnsweep-data"), help="for its sweeps")
    return parser.parse_args()


if __name__ == "__main__":
    main()
