"""What every backend has to satisfy."""

import ast
import json
import re
import subprocess
import sys
from collections.abc import Callable
from typing import Any, get_args

import pytest

from tests.documents import ROOT
from tests.workloads.shared_trainer import Trainer, result, single_event
from workloads.backends.backend import Backend
from workloads.backends.full_memory import memory_complaint
from workloads.backends.registry import backends
from workloads.layer_traits import CELLS
from workloads.protocol import Device, EnvironmentFacts, KernelProof

EACH = pytest.mark.parametrize(
    "backend", [pytest.param(backend, id=name) for name, backend in backends().items()]
)

TINY = {"units": 4, "layers": 1, "dense_units": 4, "samples": 32, "validation_samples": 16}


@pytest.fixture
def trainer_of_backend(backend: Backend, trainer_for: Callable[[str], Trainer]) -> Trainer:
    return trainer_for(backend.name)


@EACH
def test_the_light_half_has_what_everybody_reads(backend: Backend) -> None:
    assert re.fullmatch("[a-z0-9_]+", backend.name)
    assert backend.title and backend.package and backend.install and backend.framework
    assert backend.recorded_distributions
    for device in get_args(Device):
        assert all(
            isinstance(text, str) for pair in backend.environment(device).items() for text in pair
        )
    if backend.fused is not None:
        assert set(backend.fused.cells) <= set(CELLS) and backend.kernel_library("fused")
    assert not backend.kernel_library("portable")


@EACH
def test_its_lines_for_programs_without_rnnsweep_are_python(backend: Backend) -> None:
    assert not (backend.threads_code and backend.threads_variable)
    lines = [backend.tf32_code, backend.threads_code.format(threads=2)]
    if (code := backend.module_code) is not None:
        lines += [
            text.format(device=code.devices[device])
            for device in get_args(Device)
            for text in (code.compiled, code.loss_scaler, *code.low_precision.values())
        ]
    if any(lines):
        assert ast.parse(backend.import_code).body
    for line in lines:
        ast.parse(line)


@EACH
def test_its_framework_computes_as_keras_does(
    backend: Backend, trainer_of_backend: Trainer
) -> None:
    probe = "tests.workloads.backends.backend_probes:compute"
    events = trainer_of_backend.ask(probe, f"{backend.name}/portable")
    metrics = result(events)
    assert metrics["difference"] < 1e-6
    assert metrics["same_object"] and metrics["refuses_gpu"]
    assert not metrics["sees_gpu"] and not metrics["reads_gpu_memory"]
    facts: dict[str, Any] = {}
    for event in events:
        facts |= dict(event.facts) if isinstance(event, EnvironmentFacts) else {}
    assert facts["backend"] == backend.name
    assert facts[backend.package] and facts["devices"] == "CPU"


@EACH
def test_it_trains_a_built_in_workload_and_proves_the_kernel(
    backend: Backend, trainer_of_backend: Trainer
) -> None:
    name = f"{backend.name}/portable"
    events = trainer_of_backend.ask("image_rows", name, settings=TINY)
    assert result(events)["step_ms"] > 0
    proof = single_event(events, KernelProof)
    assert (proof.asked, proof.ran) == ("portable", "portable")


def test_errors_of_each_framework_say_that_memory_is_full() -> None:
    own = [text for backend in backends().values() for text in backend.memory_complaints]
    for text in [*own, "CUDA out of memory", "Unable to allocate 9 GiB"]:
        assert memory_complaint(RuntimeError(f"in step 3:\n {text}: 9\nshape")) == f"{text}: 9"
    assert memory_complaint(RuntimeError("a wrong shape")) is None
    assert memory_complaint(MemoryError())


def test_no_light_half_imports_a_framework() -> None:
    code = """if True:
        import json, sys
        from workloads.backends.registry import backends
        heavy = {backend.package for backend in backends().values()} | {"keras"}
        print(json.dumps([sorted(backends()), sorted(heavy & set(sys.modules))]))
    """
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    names, imported = json.loads(done.stdout)
    assert names == sorted(backends())
    assert imported == []
