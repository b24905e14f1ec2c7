"""Run all checks of a GPU and write their outcomes to a JSON file.

Without a GPU, every check is skipped with the reason. The exit code is 1 if a check failed. A
target that is not reached counts as `missed`, which is not a failure. A second run with the same
file replaces the checks of `--only` and keeps the others.
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path

from orchestrator.hardware import probe
from tests.gpu.checks import CHECKS, run_checks
from tests.gpu.lab import Lab
from tests.gpu.outcomes import OtherHardware, Outcome, Record
from tests.gpu.sizes import FULL, QUICK
from workloads.implementations import BACKENDS


def main() -> int:
    options, node = _parser().parse_args(), probe()
    # The hardware and sizes of this run, without host names.
    own = ("cpu_model", "cpus", "memory_mib", "driver", "system")
    conditions = {
        "device": options.device,
        "sizes": "quick" if options.quick else "full",
        "gpus": [gpu.name for gpu in node.gpus],
        "gpu_memory_mib": [gpu.memory_mib for gpu in node.gpus],
        **{name: getattr(node, name) for name in own},
    }
    try:
        record = Record(options.output, conditions)
    except OtherHardware as error:
        print(error, file=sys.stderr)
        return 2
    checks = [CHECKS[name] for name in CHECKS if not options.only or name in options.only]
    if options.device == "gpu" and not node.gpus:
        for check in checks:
            reason = "NVML sees no NVIDIA GPU"
            record.add(Outcome(check.__name__, "all", "skipped", reason=reason))
    else:
        until_s = time.monotonic() + options.limit_s
        sizes = QUICK if options.quick else FULL
        with (
            tempfile.TemporaryDirectory() as scratch,
            Lab(
                options.device, sizes, options.backends, scratch=Path(scratch), until_s=until_s
            ) as lab,
        ):
            run_checks(checks, lab, record)
    print(record.as_text())
    return 1 if any(outcome.status == "failed" for outcome in record.outcomes) else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.gpu",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    names = list(CHECKS)
    parser.add_argument("--output", type=Path, metavar="FILE", help="write the outcomes to FILE")
    parser.add_argument("--only", nargs="+", choices=names, metavar="NAME", help=", ".join(names))
    parser.add_argument("--backends", nargs="+", choices=tuple(BACKENDS), default=list(BACKENDS))
    parser.add_argument("--device", choices=("gpu", "cpu"), default="gpu")
    parser.add_argument("--quick", action="store_true", help="use tiny sizes")
    parser.add_argument(
        "--limit-s", type=float, default=float("inf"), help="start no check after so many seconds"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
