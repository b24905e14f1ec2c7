"""JAX as the framework of this process. See `workloads.backends.framework.Framework`."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import keras
from jax.experimental import rnn

from workloads.backends import framework
from workloads.backends.jax import evidence, fused
from workloads.backends.jax.passes import make_passes, outputs_and_gradients
from workloads.backends.kernel_evidence import EagerStep, Proof, RecurrentPart
from workloads.backends.passes import Batch, CheckedModel, OutputsAndGradients, Passes
from workloads.backends.process_settings import ProcessSetting
from workloads.backends.stack_call import StackCall
from workloads.context import RecordedFact
from workloads.hidden_packages import hide_package
from workloads.implementations import Implementation
from workloads.protocol import TimedWork

_COMPILED = "/jax/core/compile/backend_compile_duration"


class JaxFramework(framework.Framework):
    """JAX, set up for a trial."""

    _compilations = 0

    def fix_threads(self, count: int) -> None:
        """Set the size of XLA's pool, and count compilations from now on."""
        # Keras would import it for a `Bidirectional` layer: ten seconds, and hundreds of MiB.
        hide_package("tensorflow")
        # XLA sizes its pool when the first device is requested, by the smaller of the CPU affinity
        # and this variable, since it reads no cgroup quota.
        os.environ[self.backend.threads_variable] = str(count)
        jax.monitoring.register_event_duration_secs_listener(self._record_compilation)

    def _record_compilation(self, event: str, seconds: float, **_: Any) -> None:
        self._compilations += event == _COMPILED

    def process_settings(self) -> Iterator[ProcessSetting]:
        yield from super().process_settings()
        for name in ("jax_default_matmul_precision", "jax_disable_jit", "jax_platforms"):
            yield ProcessSetting(
                name,
                (name, name.removeprefix("jax_")),
                partial(getattr, jax.config, name),
                partial(jax.config.update, name),
            )

    def switch_tf32(self, is_on: bool) -> None:
        # Without a precision XLA rounds to TF32 in cuBLAS and in its own kernels alike;
        # "tensorfloat32" is three products in some of them, and cuDNN's call refuses "default".
        jax.config.update("jax_default_matmul_precision", None if is_on else "highest")

    def has_gpu(self) -> bool:
        try:
            return jax.default_backend() == "gpu"
        except RuntimeError:  # the plugin may raise if GPUs are hidden
            return False

    def explain_blindness(self) -> str:
        """Return what JAX raises where it is asked for a GPU by name; else it takes the CPU."""
        try:
            jax.devices("gpu")
        except RuntimeError as error:
            return str(error)
        return ""

    def synchronise(self, values: Any = None) -> None:
        jax.block_until_ready(jax.live_arrays() if values is None else values)

    def outputs_and_gradients(self, checked: CheckedModel, batch: Batch) -> OutputsAndGradients:
        return outputs_and_gradients(checked, batch)

    def run_stack(self, call: StackCall) -> tuple[Any, tuple[Any, ...]]:
        return fused.run_stack(call)

    def make_predict(self, model: Any) -> Callable[[Iterable[Any]], Any]:
        model.make_predict_function()
        predict = model.predict_function

        def predict_batches(batches: Iterable[Any]) -> Any:
            # The compiled function takes and returns the state, whose buffers it may use again.
            kinds = model.trainable_variables, model.non_trainable_variables
            state: Any = tuple([variable.value for variable in kind] for kind in kinds)
            outputs = None
            for inputs in batches:
                outputs, state = predict(state, iter([(inputs,)]))
            for variables, values in zip(kinds, state, strict=True):
                for variable, value in zip(variables, values, strict=True):
                    variable.assign(value)
            return outputs

        return predict_batches

    def make_passes(self, model: Any, implementation: Implementation) -> Passes:
        return make_passes(model, jit=self.backend.is_compiled(implementation))

    def prove_traced(self, record: Any, model: Any, parts: Sequence[RecurrentPart]) -> Proof:
        return evidence.prove_traced(record, model, parts)

    def prove_eager(self, step: EagerStep, parts: Sequence[RecurrentPart]) -> Proof:
        return evidence.prove_eager(step, parts)

    def prove_passes(
        self,
        passes: Passes,
        batch: Any,
        parts: Sequence[RecurrentPart],
        implementation: Implementation,
        timed_work: TimedWork,
    ) -> Proof:
        eager = self.backend.is_eager(implementation)
        return evidence.prove_passes(passes.timed(timed_work), batch, parts, eager=eager)

    def tracing_record(self, arguments: Any) -> Any | None:
        """Return the shapes of the arguments of a traced step, from which it can be lowered."""
        if not any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(arguments)):
            return None
        return jax.tree.map(_shape, arguments)

    def compilation_count(self) -> int:
        """Return how many programs XLA compiled or read from a cache since the first trial."""
        return self._compilations

    def peak_gpu_mib(self) -> float | None:
        """Return the peak of XLA's allocator since the process began: JAX cannot reset it."""
        stats = jax.local_devices()[0].memory_stats()
        return None if not stats else stats["peak_bytes_in_use"] / framework.BYTES_PER_MIB

    def cudnn_failure(self) -> str:
        """Run a tiny LSTM on cuDNN without Keras, which keeps the error to itself."""
        weights = jnp.ones(rnn.get_num_params_in_lstm(1, 1, 1, bidirectional=False))
        arrays = *[jnp.ones((1, 1, 1))] * 3, weights, jnp.ones(1, jnp.int32)
        try:
            jax.block_until_ready(rnn.lstm(*arrays, 1, 1, 1, 0.0, False))
        except Exception as error:  # noqa: BLE001 - whatever it is, it explains the refusal
            return f"; cuDNN by itself fails too: {str(error).strip().splitlines()[0]}"
        return ""

    def release_memory(self) -> None:
        keras.utils.clear_session()
        jax.clear_caches()
        super().release_memory()

    def framework_facts(self) -> Mapping[str, RecordedFact]:
        devices = jax.local_devices()
        on_gpu = devices[0].platform == "gpu"
        return {
            "jax": jax.__version__,
            "cuda_build": devices[0].client.platform_version.split()[-1] if on_gpu else None,
            "cudnn_build": framework.installed_cudnn() if on_gpu else None,
            "devices": ", ".join(device.device_kind for device in devices) if on_gpu else "CPU",
            "intra_op_threads": int(os.environ[self.backend.threads_variable]),
            "compilation_cache": jax.config.jax_compilation_cache_dir,
            "tf32": jax.config.jax_default_matmul_precision is None,
        }


def _shape(leaf: Any) -> Any:
    if not hasattr(leaf, "dtype"):
        return leaf
    weak = getattr(getattr(leaf, "aval", None), "weak_type", False)
    return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, weak_type=weak)
