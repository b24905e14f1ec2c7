"""TensorFlow as the framework of this process. See `workloads.backends.framework.Framework`."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import tensorflow as tf
from tensorflow.python.eager import context
from tensorflow.python.framework import config, ops

from workloads.backends.framework import BYTES_PER_MIB, Framework, installed_cudnn
from workloads.backends.kernel_evidence import EagerStep, Proof, RecurrentPart
from workloads.backends.passes import Batch, CheckedModel, OutputsAndGradients, Passes
from workloads.backends.process_settings import ProcessSetting
from workloads.backends.stack_call import StackCall
from workloads.backends.stderr_capture import captured_stderr
from workloads.backends.tensorflow import evidence, fused
from workloads.backends.tensorflow.passes import make_passes, outputs_and_gradients
from workloads.context import RecordedFact
from workloads.implementations import AUTO, Implementation
from workloads.protocol import TimedWork

_ABOUT_GPUS = re.compile("gpu|cuda|dlopen|driver", re.IGNORECASE)


class TensorFlowFramework(Framework):
    """TensorFlow, set up for a trial."""

    _gpu_messages: list[str] = []  # noqa: RUF012 - replaced, never changed

    def fix_threads(self, count: int) -> None:
        """Size the pools: by default TensorFlow takes the machine's, and no `OMP_NUM_THREADS`."""
        tf.config.threading.set_intra_op_parallelism_threads(count)
        tf.config.threading.set_inter_op_parallelism_threads(count)

    def process_settings(self) -> Iterator[ProcessSetting]:
        yield from super().process_settings()
        # The public functions that read the threads and the clustering look for devices.
        now, threads = context.context(), tf.config.threading
        for name in ("intra_op", "inter_op"):
            setter = f"set_{name}_parallelism_threads"
            attribute = f"_{name}_parallelism_threads"
            yield ProcessSetting(
                f"{name} threads",
                (setter,),
                partial(getattr, now, attribute, None),
                getattr(threads, setter),
            )
        yield ProcessSetting(
            "automatic clustering by XLA",
            ("set_jit",),
            lambda: bool(getattr(now, "_optimizer_jit", None)),
            tf.config.optimizer.set_jit,
        )
        yield ProcessSetting(
            "TF32",
            ("enable_tensor_float_32_execution",),
            tf.config.experimental.tensor_float_32_execution_enabled,
            tf.config.experimental.enable_tensor_float_32_execution,
        )
        yield ProcessSetting(
            "deterministic operations",
            ("enable_op_determinism",),
            config.is_op_determinism_enabled,
            lambda is_on: (
                config.enable_op_determinism() if is_on else config.disable_op_determinism()
            ),
        )
        yield ProcessSetting(
            "eager functions",
            ("run_functions_eagerly",),
            tf.config.functions_run_eagerly,
            tf.config.run_functions_eagerly,
        )

    def switch_tf32(self, is_on: bool) -> None:
        tf.config.experimental.enable_tensor_float_32_execution(is_on)

    def has_gpu(self) -> bool:
        if not self._gpu_messages:
            with captured_stderr() as messages:
                devices = tf.config.list_logical_devices("GPU")
            self._gpu_messages = messages
            return bool(devices)
        return bool(tf.config.list_logical_devices("GPU"))

    def explain_blindness(self) -> str:
        """Return what TensorFlow logged when it looked for GPUs the first time."""
        # "W0000 00:00:1732.5 42 gpu_device.cc:2342] Cannot dlopen some GPU libraries. …"
        found = [
            line.rpartition("] ")[2].strip() for line in "".join(self._gpu_messages).splitlines()
        ]
        return "; ".join(dict.fromkeys(line for line in found if _ABOUT_GPUS.search(line)))

    def synchronise(self, values: Any = None) -> None:
        tf.test.experimental.sync_devices()

    def outputs_and_gradients(self, checked: CheckedModel, batch: Batch) -> OutputsAndGradients:
        return outputs_and_gradients(checked, batch)

    def run_stack(self, call: StackCall) -> tuple[Any, tuple[Any, ...]]:
        return fused.run_stack(call)

    def make_predict(self, model: Any) -> Callable[[Iterable[Any]], Any]:
        model.make_predict_function()
        predict = model.predict_function

        def predict_batches(batches: Iterable[Any]) -> Any:
            outputs = None
            for inputs in batches:
                outputs = predict([(inputs,)])
            return outputs

        return predict_batches

    def make_passes(self, model: Any, implementation: Implementation) -> Passes:
        jit = self.backend.is_compiled(implementation)
        if implementation.kernel == AUTO and not jit:
            jit = model.jit_compile  # as Keras chooses it
        return make_passes(model, eager=self.backend.is_eager(implementation), jit=jit)

    def prove_traced(self, record: Any, model: Any, parts: Sequence[RecurrentPart]) -> Proof:
        return evidence.prove_traced(record, parts)

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
        """Return the graph that a step is being traced into; None in eager execution."""
        return None if tf.executing_eagerly() else tf.compat.v1.get_default_graph()

    def reset_peak_memory(self) -> None:
        if self.has_gpu():
            tf.config.experimental.reset_memory_stats("GPU:0")

    def peak_gpu_mib(self) -> float | None:
        if not self.has_gpu():
            return None
        return tf.config.experimental.get_memory_info("GPU:0")["peak"] / BYTES_PER_MIB

    def release_memory(self) -> None:
        """Release graphs, functions and variables of a trial.

        Keras reduces gradients through a `tf.custom_gradient`, which TensorFlow registers in every
        traced graph and never removes. The registration keeps the graph, 9 MiB for the smallest
        model. Programs that XLA compiled stay (about 30 MiB per trial): nothing in Python can
        release them.
        """
        registered = getattr(getattr(ops, "gradient_registry", None), "_registry", {})
        for name in [name for name in registered if name.startswith("CustomGradient-")]:
            del registered[name]
        super().release_memory()

    def framework_facts(self) -> Mapping[str, RecordedFact]:
        build = tf.sysconfig.get_build_info()
        gpus = tf.config.list_physical_devices("GPU")
        details = [tf.config.experimental.get_device_details(gpu) for gpu in gpus]
        return {
            "tensorflow": tf.__version__,
            "cuda_build": build.get("cuda_version"),
            "cudnn_build": installed_cudnn() or build.get("cudnn_version"),
            "devices": ", ".join(str(d.get("device_name", "GPU")) for d in details) or "CPU",
            "intra_op_threads": tf.config.threading.get_intra_op_parallelism_threads(),
            "inter_op_threads": tf.config.threading.get_inter_op_parallelism_threads(),
            "tf32": tf.config.experimental.tensor_float_32_execution_enabled(),
            "auto_clustering": str(tf.config.optimizer.get_jit() or "off"),
        }
