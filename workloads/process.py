"""Trainer processes before their first trial: the environment of a backend, and their end.

Keras fixes its backend, and CUDA its devices, on import: a trainer process therefore has one
backend and one device for life.
"""

import contextlib
import ctypes
import os
import signal
import sys
from pathlib import Path

from workloads.failures import BadRequest
from workloads.implementations import BACKENDS, Implementation
from workloads.protocol import Device

_PR_SET_PDEATHSIG = 1


def environment_for(implementation: Implementation, device: Device) -> dict[str, str]:
    """Return the environment variables of a trainer process for this backend and device.

    A GPU trial keeps the `CUDA_VISIBLE_DEVICES` of its node. A CPU trial hides every GPU, because
    a framework would otherwise use any GPU that it can see.
    """
    variables = {
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",  # number GPUs as NVML does; CUDA puts the fastest first
        "TF_CPP_MIN_LOG_LEVEL": "2",
        "TF_FORCE_GPU_ALLOW_GROWTH": "true",
        "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
    }
    if implementation.backend in BACKENDS:
        variables["KERAS_BACKEND"] = implementation.backend
    if device == "cpu":
        variables["CUDA_VISIBLE_DEVICES"] = "-1"
        variables["JAX_PLATFORMS"] = "cpu"  # JAX would look for other accelerators, and warn
        variables["KERAS_TORCH_DEVICE"] = "cpu"  # Keras would take any that PyTorch has
    return variables


class BackendClaim:
    """The backend and device of this process, fixed by its first trial."""

    def __init__(self) -> None:
        self._claimed: tuple[str, Device] | None = None

    def take(self, implementation: Implementation, device: Device) -> None:
        """Set the process up for its first trial; `BadRequest` if that was of another kind."""
        claim = (implementation.backend, device)
        if self._claimed is None:
            os.environ.update(environment_for(implementation, device))
            self._claimed = claim
        elif self._claimed != claim:
            raise BadRequest(
                f"this trainer process runs {self._claimed[0]} on {self._claimed[1]}, fixed by its"
                f" first trial; received {claim[0]} on {claim[1]}: start another process for it"
            )


def die_with_parent(parent: int) -> None:
    """Let the kernel kill this process when the one that started it ends, however it ends.

    Linux does so as soon as the *thread* that started it ends, which must live as long as this
    process. On other systems the end of standard input has to do.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it ended before the line above
        sys.exit(f"parent {parent} is gone (now {os.getppid()}); nothing to do")


def bind_trainer_to_parent(parent: int) -> None:
    """Tie a trainer to its parent, and leave its signals to it: the parent decides about Ctrl-C.

    Under memory pressure the kernel should end a trainer, and not a Ray worker.
    """
    die_with_parent(parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")
