"""What a trial ran in, as far as it can be told outside its trainer: software and node."""

from __future__ import annotations

import functools
import importlib.metadata

from orchestrator import __version__, hardware
from orchestrator.core import version

Fact = str | int | float | bool | None


@functools.cache
def recorded_environment() -> dict[str, Fact]:
    """Versions, commit and node of this process; what cannot be told is absent."""
    profile = hardware.probe(every_gpu=True)  # what Ray hides is part of the node
    facts: dict[str, Fact | None] = {
        "rnnsweep": __version__,
        "git_commit": version.commit(),
        "ray": importlib.metadata.version("ray"),
        "optuna": importlib.metadata.version("optuna"),
        "system": profile.system,
        "cpu_model": profile.cpu_model,
        "memory_mib": profile.memory_mib,
        "gpu_driver": profile.driver,
        "gpus": ", ".join(gpu.name for gpu in profile.gpus) or None,
    }
    return {name: fact for name, fact in facts.items() if fact is not None}
