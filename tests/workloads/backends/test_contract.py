"""What every backend has to satisfy: ours, and two of another package."""

import ast
import itertools
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, get_args

import pytest

from tests.workloads.backends import foreign
from tests.workloads.backends.foreign.packages import ROOT, install
from tests.workloads.shared_trainer import Trainer, expect_package, result, single_event
from workloads.backends.backend import Backend, Combination, invalid_reason
from workloads.backends.full_memory import memory_complaint
from workloads.backends.registry import backends
from workloads.implementations import KERNELS, OPTIONS, Implementation
from workloads.layer_traits import CELLS, LayerTraits
from workloads.protocol import Device, EnvironmentFacts, KernelProof


@dataclass(frozen=True)
class Case:
    backend: Backend
    trains: bool = True
    """Keras computes gradients on it."""
    needs: str | None = None
    """A package that its framework imports besides its own."""


CASES = {
    **{name: Case(backend) for name, backend in backends().items()},
    "mirror": Case(foreign.MIRROR),
    "array": Case(foreign.ARRAY, trains=False, needs="jax"),  # Keras' NumPy backend imports JAX
}
EACH = pytest.mark.parametrize(
    "case", [pytest.param(case, id=name) for name, case in CASES.items()]
)
TrainerOf = Callable[[str], Trainer]
"""Returns the running trainer of a backend."""

TINY = {"units": 4, "layers": 1, "dense_units": 4, "samples": 32, "validation_samples": 16}


@pytest.fixture(scope="module")
def foreign_trainer_for(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TrainerOf]:
    """Return a function that starts the trainer of a foreign backend, once."""
    started: dict[str, Trainer] = {}
    with ExitStack() as running:

        def trainer_for(name: str) -> Trainer:
            if name not in started:
                trainer = Trainer(environment=install(tmp_path_factory.mktemp("packages")))
                started[name] = running.enter_context(trainer)
            return started[name]

        yield trainer_for


@pytest.fixture
def trainer_of_case(case: Case, trainer_for: TrainerOf, foreign_trainer_for: TrainerOf) -> Trainer:
    if case.needs is not None:
        expect_package(case.needs)
    name = case.backend.name
    return trainer_for(name) if name in backends() else foreign_trainer_for(name)


@EACH
def test_the_light_half_has_what_everybody_reads(case: Case) -> None:
    backend = case.backend
    assert invalid_reason(backend) is None
    assert backend.recorded_distributions and backend.keras_name
    for device in get_args(Device):
        assert all(
            isinstance(text, str) for pair in backend.environment(device).items() for text in pair
        )
    if backend.fused is not None:
        assert set(backend.fused.cells) <= set(CELLS) and backend.kernel_library("fused")
    assert not backend.kernel_library("portable")


@EACH
def test_its_lines_for_programs_without_rnnsweep_are_python(case: Case) -> None:
    backend = case.backend
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
def test_its_rules_give_reasons_that_end_a_sentence(case: Case) -> None:
    options = ((), *((option,) for option in (*OPTIONS, *case.backend.options)))
    layers = [
        LayerTraits(),
        LayerTraits("gru", layers=2, dropout=0.5),
        LayerTraits("rnn_relu", activation="relu"),
        LayerTraits(mask="left", stateful=True),
    ]
    for kernel, chosen, traits, device in itertools.product(
        KERNELS, options, layers, get_args(Device)
    ):
        implementation = Implementation(case.backend.name, kernel, chosen)
        asked = Combination(implementation, traits, device)
        reasons = [*case.backend.device_reasons(asked), *case.backend.option_reasons(asked)]
        reasons += case.backend.layer_reasons(asked)
        assert all(re.fullmatch(r"\S.*[^\s.]", reason) for reason in reasons)
        assert case.backend.is_eager(implementation) in (True, False)
        if "xla" in chosen:
            assert case.backend.is_compiled(implementation)


@EACH
def test_its_framework_computes_and_feeds_in_order(case: Case, trainer_of_case: Trainer) -> None:
    probe = "tests.workloads.backends.backend_probes:compute"
    events = trainer_of_case.ask(probe, f"{case.backend.name}/portable")
    metrics = result(events)
    assert metrics["difference"] < 1e-6
    assert metrics["same_object"] and metrics["keeps_order"] and metrics["refuses_gpu"]
    assert not metrics["sees_gpu"] and not metrics["reads_gpu_memory"]
    facts: dict[str, Any] = {}
    for event in events:
        facts |= dict(event.facts) if isinstance(event, EnvironmentFacts) else {}
    assert facts["backend"] == case.backend.name
    assert facts[case.backend.package] and facts["devices"] == "CPU"


@EACH
def test_it_trains_a_built_in_workload_and_proves_the_kernel(
    case: Case, trainer_of_case: Trainer
) -> None:
    name = f"{case.backend.name}/portable"
    events = trainer_of_case.ask("image_rows", name, settings=TINY)
    if not case.trains:
        assert "Keras computes no gradients" in getattr(events[-1], "message", "")
        return
    assert result(events)["step_ms"] > 0
    proof = single_event(events, KernelProof)
    assert (proof.asked, proof.ran) == ("portable", "portable")


def test_errors_of_each_framework_say_that_memory_is_full() -> None:
    own = [text for backend in backends().values() for text in backend.memory_complaints]
    for text in [*own, "CUDA out of memory", "Unable to allocate 9 GiB"]:
        assert memory_complaint(RuntimeError(f"in step 3:\n {text}: 9\nshape")) == f"{text}: 9"
    assert memory_complaint(RuntimeError("a wrong shape")) is None
    assert memory_complaint(MemoryError())


def test_no_light_half_imports_a_framework(tmp_path: Any) -> None:
    code = """if True:
        import json, sys
        from workloads.backends.registry import backends
        heavy = {backend.package for backend in backends().values()} | {"keras"}
        print(json.dumps([sorted(backends()), sorted((heavy - {"numpy"}) & set(sys.modules))]))
    """
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | install(tmp_path),
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    names, imported = json.loads(done.stdout)
    assert names == sorted(CASES)
    assert imported == []


def test_attributes_that_a_backend_lacks_are_named() -> None:
    assert "name: expected a text" in str(invalid_reason(foreign.NAMELESS))
    assert "expected an instance of" in str(invalid_reason(dict))
