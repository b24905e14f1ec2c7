"""What must stand in a process's environment before its framework is imported.

Keras fixes its backend, and CUDA its devices, when they are imported: a trainer process therefore
has one backend and one device for life. Standard library only, so that whoever spawns a trainer
can ask too.
"""

from __future__ import annotations

import os

from workloads.failures import BadRequest
from workloads.implementations import BACKENDS, Implementation
from workloads.protocol import Device


def environment_for(implementation: Implementation, device: Device) -> dict[str, str]:
    """Variables for a trainer process of this backend and device.

    A GPU trial keeps the `CUDA_VISIBLE_DEVICES` that its node was given; a CPU trial hides every
    GPU, because a framework would otherwise use one that it can see.
    """
    variables = {
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",  # GPU 1 is NVML's; CUDA would put the fastest first
        "TF_CPP_MIN_LOG_LEVEL": "2",
        "TF_FORCE_GPU_ALLOW_GROWTH": "true",
        "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
    }
    if implementation.backend in BACKENDS:
        variables["KERAS_BACKEND"] = implementation.backend
    if device == "cpu":
        variables["CUDA_VISIBLE_DEVICES"] = "-1"
        variables["JAX_PLATFORMS"] = "cpu"  # JAX would look for other accelerators, and warn
        variables["KERAS_TORCH_DEVICE"] = "cpu"  # Keras would take any that PyTorch knows
    return variables


class BackendClaim:
    """The backend and the device of this process: fixed by its first trial."""

    def __init__(self) -> None:
        self._held: tuple[str, Device] | None = None

    def take(self, implementation: Implementation, device: Device) -> None:
        """Set the process up for the first trial; refuse one that needs another process.

        Raises:
            BadRequest: the process already belongs to another backend or device.
        """
        wanted = (implementation.backend, device)
        if self._held is None:
            os.environ.update(environment_for(implementation, device))
            self._held = wanted
        elif self._held != wanted:
            raise BadRequest(
                f"this trainer process runs {self._held[0]} on {self._held[1]}, fixed when it was"
                f" imported; received {wanted[0]} on {wanted[1]}: start another process for it"
            )
