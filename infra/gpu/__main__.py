"""Check a GPU (kernels, numbers, memory, power and speed), and write the results as JSON.

Run it again with the same file to continue. A check that a backend has passed is repeated only if
`--only` names it, or if packages, driver or code have changed.

exit codes:
  0  all chosen checks are done, a kernel was proven on the GPU, and everything is as expected
  1  something failed, or there is no GPU
  2  wrong argument
  3  incomplete: run the same command again to continue
  4  everything works, but a figure is not as docs/gpu.md expects
"""

import argparse
import math
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from infra.gpu.checks import CHECKS, PRESENCE_CHECK, run_checks
from infra.gpu.conclusion import ExitCode, conclude
from infra.gpu.conditions import conditions_of
from infra.gpu.lab import Lab
from infra.gpu.outcomes import OtherHardware, Record, as_text
from infra.gpu.sizes import SIZES
from orchestrator.diagnostics.hardware_listing import no_gpu_note
from orchestrator.hardware import probe
from workloads.backends.registry import backends

_NEEDED = (
    "an NVIDIA GPU and its driver (580 or newer for CUDA 13: torch, jax; 525 or newer for CUDA 12:"
    " tensorflow, jax)"
)


def main(words: Sequence[str] | None = None) -> int:
    """Run the command with these words, or with sys.argv; return the exit code."""
    parser, node = _parser(), probe()
    options = parser.parse_args(words)
    gpus = [gpu.name for gpu in node.gpus]
    # The hardware and sizes of this run, without host names.
    hardware = {"device": "gpu", "sizes": options.sizes, "gpus": gpus}
    try:
        record = Record(options.output, hardware)
    except OtherHardware as error:
        parser.error(f"--output: {error}")
    chosen = [check for name, check in CHECKS.items() if name in (options.only or CHECKS)]
    for backend in options.backends:
        changed = record.use_conditions(backend, conditions_of(backend, node.driver))
        for name, versions in changed.items():
            print(f"{backend}: {name} was {versions}; its checks run again", file=sys.stderr)
        for check in chosen if options.only else ():
            record.repeat(check.name, backend)
    reported = [float(gpu.compute_capability) for gpu in node.gpus if gpu.compute_capability]
    limits = {
        "capability": min(reported, default=None),
        "until_s": time.monotonic() + options.limit_s * len(options.backends),
    }
    with Lab("gpu", SIZES[options.sizes], options.backends, **limits) as lab:
        present = run_checks(chosen, lab, record, gpus)
    conclusion = conclude(record, chosen, present)
    names = [PRESENCE_CHECK, *(check.name for check in chosen)]
    print(as_text(record.counted(options.backends, names)))
    print(conclusion.text, file=sys.stderr)
    if not gpus:
        seen = "; ".join(node.gpu_faults) or no_gpu_note(node).text
        print(f"This needs {_NEEDED}. Here: {seen}", file=sys.stderr)
        return ExitCode.FAILED
    if options.output:
        print(f"Copy {options.output} elsewhere: git ignores its folder", file=sys.stderr)
    return conclusion.code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m infra.gpu",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    names = [PRESENCE_CHECK, *CHECKS]
    add("--output", type=Path, metavar="FILE", help="write the outcomes to FILE")
    add("--only", nargs="+", choices=names, metavar="NAME", help=", ".join(names))
    add("--backends", nargs="+", choices=tuple(backends()), default=["torch", "jax"])
    add("--sizes", choices=tuple(SIZES), default="usual")
    add("--limit-s", type=float, default=math.inf, help="time after which no check starts")
    return parser


if __name__ == "__main__":
    sys.exit(main())
