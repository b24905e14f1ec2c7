"""Check a GPU: kernels, numbers, memory, power and speed, into a JSON file.

The exit code is 0 only if a kernel was proven on the GPU and nothing failed. A second run with the
same file continues it: checks that a backend has passed are not repeated, except those of `--only`.
"""

import argparse
import math
import sys
import time
from pathlib import Path

from orchestrator.hardware import probe
from tests.gpu.checks import CHECKS, run_checks
from tests.gpu.lab import Lab
from tests.gpu.outcomes import Record
from tests.gpu.sizes import SIZES
from workloads.backends.registry import backends

_NEEDED = (
    "an NVIDIA GPU and its driver (580 or newer for CUDA 13: torch, jax; 525 or newer for CUDA 12:"
    " tensorflow, jax)"
)


def main() -> int:
    parser, node = _parser(), probe()
    options = parser.parse_args()
    if {"tensorflow", "torch"} <= set(options.backends):
        parser.error("expected torch and jax (CUDA 13), or tensorflow and jax (CUDA 12)")
    gpus = [gpu.name for gpu in node.gpus]
    reason = node.no_gpus.reason if node.no_gpus else "; ".join(node.gpu_faults)
    seen = reason or f"{node.gpu_terms.library} shows no GPU to this process"
    lacking = "" if gpus else f"needs {_NEEDED}; here {seen}"
    if options.expect_gpu:
        print(lacking or ", ".join(gpus), file=sys.stderr)
        return 1 if lacking else 0
    # The hardware and sizes of this run, without host names.
    conditions = {"device": "gpu", "sizes": options.sizes, "gpus": gpus}
    own = ("cpu_model", "cpus", "memory_mib", "driver", "system")
    record = Record(options.output, conditions, {name: getattr(node, name) for name in own})
    repeated = {f"{name} {backend}" for name in options.only or () for backend in options.backends}
    record.done = [check for check in record.done if check not in repeated]
    reported = [float(gpu.compute_capability) for gpu in node.gpus if gpu.compute_capability]
    limits = {
        "capability": min(reported, default=None),
        "until_s": time.monotonic() + options.limit_s * len(options.backends),
    }
    with Lab("gpu", SIZES[options.sizes], options.backends, **limits) as lab:
        chosen = [check for name, check in CHECKS.items() if name in (options.only or CHECKS)]
        run_checks(chosen, lab, record, gpus)
    print(record.as_text())
    print(record.failure or "all in order", lacking, file=sys.stderr)
    return 1 if record.failure else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.gpu",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    names = ["presence", *CHECKS]
    add("--output", type=Path, metavar="FILE", help="write the outcomes to FILE")
    add("--only", nargs="+", choices=names, metavar="NAME", help=", ".join(names))
    add("--backends", nargs="+", choices=tuple(backends()), default=["torch", "jax"])
    add("--sizes", choices=tuple(SIZES), default="usual")
    add("--expect-gpu", action="store_true", help="check only that NVML shows one")
    add("--limit-s", type=float, default=math.inf, help="start no check after so long per backend")
    return parser


if __name__ == "__main__":
    sys.exit(main())
