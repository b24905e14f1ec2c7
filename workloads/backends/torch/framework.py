"""PyTorch as the framework of this process. See `workloads.backends.framework.Framework`."""

import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

import numpy as np
import torch

from workloads.backends import framework
from workloads.backends.backend import Backend
from workloads.backends.kernel_evidence import EagerStep, Proof, RecurrentPart
from workloads.backends.passes import Batch, CheckedModel, OutputsAndGradients, Passes
from workloads.backends.process_settings import ProcessSetting
from workloads.backends.stack_call import StackCall
from workloads.backends.torch import evidence, fused
from workloads.backends.torch.cudnn_errors import CudnnErrors
from workloads.backends.torch.passes import make_passes, outputs_and_gradients
from workloads.context import RecordedFact
from workloads.hidden_packages import hide_package
from workloads.implementations import Implementation
from workloads.number_format import OwnNumberFormat
from workloads.protocol import Device, TimedWork


class TorchFramework(framework.Framework):
    """PyTorch, set up for a trial."""

    def __init__(self, backend: Backend) -> None:
        super().__init__(backend)
        self.cudnn_errors = CudnnErrors()
        self._interop_threads: int | None = None

    def configure(
        self,
        implementation: Implementation,
        device: Device,
        own_format: OwnNumberFormat | None = None,
    ) -> None:
        super().configure(implementation, device, own_format)
        self.cudnn_errors.forget()

    def fix_threads(self, count: int) -> None:
        # Keras would import it for a `Bidirectional` layer: ten seconds, and hundreds of MiB.
        hide_package("tensorflow")
        torch.set_num_threads(count)
        if self._interop_threads is None:
            torch.set_num_interop_threads(count)
            torch.set_num_interop_threads = self._note_interop_threads
        self._interop_threads = count

    def _note_interop_threads(self, count: int) -> None:
        """Note a later call of `set_num_interop_threads`, which PyTorch refuses in any process."""
        self._interop_threads = count

    def process_settings(self) -> Iterator[ProcessSetting]:
        yield from super().process_settings()
        yield ProcessSetting(
            "threads", ("set_num_threads",), torch.get_num_threads, torch.set_num_threads
        )
        yield ProcessSetting(
            "interop threads",
            ("set_num_interop_threads",),
            lambda: self._interop_threads,
            self._note_interop_threads,
        )
        yield ProcessSetting(
            "precision of float32 products",
            ("set_float32_matmul_precision", "allow_tf32", "fp32_precision"),
            torch.get_float32_matmul_precision,
            torch.set_float32_matmul_precision,
        )
        yield ProcessSetting(
            "deterministic operations",
            ("use_deterministic_algorithms",),
            torch.are_deterministic_algorithms_enabled,
            torch.use_deterministic_algorithms,
        )
        yield ProcessSetting(
            "default device", ("set_default_device",), torch.get_default_device, _set_default_device
        )
        yield ProcessSetting(
            "gradients", ("set_grad_enabled",), torch.is_grad_enabled, torch.set_grad_enabled
        )
        switches = torch.backends.cudnn
        for name in ("benchmark", "deterministic", "enabled"):
            yield ProcessSetting(
                f"cuDNN {name}",
                (name,),
                partial(getattr, switches, name),
                partial(setattr, switches, name),
            )

    def switch_tf32(self, is_on: bool) -> None:
        torch.backends.cuda.matmul.allow_tf32 = is_on
        torch.backends.cudnn.allow_tf32 = is_on  # by default cuDNN rounds to TF32
        # By default cuBLAS may also add up the parts of a product in 16 bits; elsewhere it may not.
        torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
        torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False

    def has_gpu(self) -> bool:
        return torch.cuda.is_available()

    def explain_blindness(self) -> str:
        """Return what `torch.cuda.init` raises: `is_available` keeps it to itself."""
        try:
            torch.cuda.init()
        except Exception as error:  # noqa: BLE001 - AssertionError without CUDA, else RuntimeError
            return str(error)
        return ""

    def random_state(self) -> Any:
        """Return the states of PyTorch's generators, which draw the dropout of a fused stack.

        A step runs the user's Python code: it may draw from the generators of Python and NumPy.
        """
        gpus = torch.cuda.get_rng_state_all() if self.has_gpu() else []
        return torch.get_rng_state(), gpus, random.getstate(), np.random.get_state()

    def restore_random_state(self, state: Any) -> None:
        cpu, gpus, of_python, of_numpy = state
        torch.set_rng_state(cpu)
        random.setstate(of_python)
        np.random.set_state(of_numpy)
        if gpus:
            torch.cuda.set_rng_state_all(gpus)

    def synchronise(self, values: Any = None) -> None:
        """Wait for the GPU; on a CPU an operation is complete when it returns."""
        if self.has_gpu():
            torch.cuda.synchronize()

    def outputs_and_gradients(self, checked: CheckedModel, batch: Batch) -> OutputsAndGradients:
        return outputs_and_gradients(checked, batch)

    def run_stack(self, call: StackCall) -> tuple[Any, tuple[Any, ...]]:
        return fused.run_stack(call)

    def make_predict(self, model: Any) -> Callable[[Iterable[Any]], Any]:
        model.eval()
        model.make_predict_function()
        predict = model.predict_function

        def predict_batches(batches: Iterable[Any]) -> Any:
            outputs = None
            for inputs in batches:
                outputs = predict([(inputs,)])
            return outputs

        return predict_batches

    def make_passes(self, model: Any, implementation: Implementation) -> Passes:
        return make_passes(model)

    def scope(self, name: str) -> AbstractContextManager[Any]:
        """Return a range of the profiler; without a profile it would only cost time."""
        is_profiled = torch.autograd._profiler_enabled()
        return torch.profiler.record_function(name) if is_profiled else nullcontext()

    def prove_eager(self, step: EagerStep, parts: Sequence[RecurrentPart]) -> Proof:
        return self.judge_proof(evidence.prove_eager(step, parts))

    def prove_passes(
        self,
        passes: Passes,
        batch: Any,
        parts: Sequence[RecurrentPart],
        implementation: Implementation,
        timed_work: TimedWork,
    ) -> Proof:
        return self.judge_proof(evidence.prove_passes(passes, batch, parts, timed_work))

    def judge_proof(self, proof: Proof) -> Proof:
        """Return the proof of a trial, in which cuDNN may have failed, from the proof of a step."""
        return self.cudnn_errors.judge(proof)

    def reset_peak_memory(self) -> None:
        if self.has_gpu():
            torch.cuda.reset_peak_memory_stats()

    def peak_gpu_mib(self) -> float | None:
        """Return the peak of PyTorch's allocations; its reserved memory may be larger."""
        return (
            torch.cuda.max_memory_allocated() / framework.BYTES_PER_MIB if self.has_gpu() else None
        )

    def release_memory(self) -> None:
        super().release_memory()
        if self.has_gpu():
            torch.cuda.empty_cache()

    def framework_facts(self) -> Mapping[str, RecordedFact]:
        gpus = [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
        return {
            "torch": torch.__version__,
            "cuda_build": torch.version.cuda,
            "cudnn_build": str(torch.backends.cudnn.version()) if self.has_gpu() else None,
            "devices": ", ".join(gpus) or "CPU",
            "intra_op_threads": torch.get_num_threads(),
            "inter_op_threads": torch.get_num_interop_threads(),
            "tf32": torch.backends.cuda.matmul.allow_tf32,
            "onednn": torch.backends.mkldnn.is_available(),
        }


def _set_default_device(device: torch.device) -> None:
    torch.set_default_device(None if device.type == "cpu" else device)  # None costs no call
