"""Import a user's own workload before anything runs for it, in a process of its own."""

import subprocess
from pathlib import Path

from orchestrator.core.errors import Refusal
from orchestrator.execution.trainer_process import trainer_command, trainer_environment
from orchestrator.spec import SweepSpec
from workloads.backends.registry import backends
from workloads.eligibility import is_installed
from workloads.implementations import Implementation, parse_implementation
from workloads.own_code import read_code
from workloads.registry import find_workload

_LIMIT_S = 120.0
_LACKING = 4


class WorkloadUnusable(Refusal):
    """A user's own workload cannot be imported, or is no function."""

    def __init__(self, workload: str, reason: str) -> None:
        super().__init__(f"workload: {workload} cannot be used: {reason}")


def _is_installed(implementation: Implementation) -> bool:
    """Return True if the backend is installed, or is a name that the workload defines."""
    backend = backends().get(implementation.backend)
    return backend is None or is_installed(backend.package)


def expect_importable(spec: SweepSpec, *, on_cluster: bool) -> None:
    """Import a user's own workload in a child process; raise `WorkloadUnusable` if that fails."""
    # On a cluster, its packages may be on the nodes alone: only the code must be here.
    if find_workload(spec.workload_name).is_built_in or (
        on_cluster and not read_code(spec.workload_name)
    ):
        return
    parsed = (parse_implementation(i) for i in spec.arms.implementations)
    installed = (i for i in parsed if _is_installed(i))
    command = trainer_command([str(Path.cwd())], "--check", spec.workload_name)
    try:
        done = subprocess.run(
            command,
            env=trainer_environment(next(installed, None), "gpu"),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_LIMIT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise WorkloadUnusable(
            spec.workload_name, f"importing it took more than {_LIMIT_S:.0f} s"
        ) from None
    if done.returncode == 0 or (on_cluster and done.returncode == _LACKING):
        return
    reason = done.stdout.strip() or "\n".join(done.stderr.strip().splitlines()[-1:])
    ended = f"its import ended with exit status {done.returncode}"
    raise WorkloadUnusable(spec.workload_name, reason or ended)
