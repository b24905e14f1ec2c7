"""PyTorch: what everybody reads. Imports no framework."""

from collections.abc import Iterator, Mapping
from typing import ClassVar

from workloads.backends.backend import Backend, Combination, FusedCall, ModuleCode
from workloads.layer_traits import CELLS
from workloads.protocol import Device


class PyTorch(Backend):
    """PyTorch, which runs each operation as Python meets it."""

    name = "torch"
    title = "PyTorch"
    package = "torch"
    install = "pip install 'rnnsweep[torch]'"
    install_on_cpu = "install the CPU build of PyTorch: see pytorch.org, Pip and CPU"
    framework = "workloads.backends.torch.framework:TorchFramework"
    fused = FusedCall("torch._VF", "PyTorch's fused RNN", CELLS, on_cpu=True)
    always_eager = True
    ignores_use_cudnn = ("lstm", "gru")
    data_set_classes = ("DataLoader",)
    global_seed = "manual_seed"
    import_code = "import torch"
    tf32_code = 'torch.set_float32_matmul_precision("high")'
    threads_code = "torch.set_num_threads({threads})"
    module_code = ModuleCode(
        devices={"cpu": '"cpu"', "gpu": '"cuda"'},
        compiled="torch.compile(module)",
        low_precision={
            "bf16": "torch.autocast({device}, torch.bfloat16)",
            "fp16": "torch.autocast({device}, torch.float16)",
        },
        loss_scaler="torch.amp.GradScaler({device})",
    )
    memory_complaints = ("can't allocate memory",)
    options: ClassVar[Mapping[str, str]] = {
        "compile": "torch.compile compiles a PyTorch module of your own",
    }
    gpu_advice = "PyTorch is built for the CUDA of the driver: pip install torch"
    gpu_peculiarity = "PyTorch uses persistent kernels for small hidden sizes"

    def environment(self, device: Device) -> Mapping[str, str]:
        # Keras would take any device that PyTorch has.
        return {"KERAS_TORCH_DEVICE": "cpu"} if device == "cpu" else {}

    def device_reasons(self, asked: Combination) -> Iterator[str]:
        is_of_keras = asked.written_in == "keras"
        if (
            is_of_keras
            and asked.device == "cpu"
            and not asked.has_kernel("fused")
            and asked.has_option("fp16")
        ):
            # keras/src/backend/torch/numpy.py, matmul
            yield "Keras on PyTorch silently computes float16 products in float32 on a CPU"

    def option_reasons(self, asked: Combination) -> Iterator[str]:
        if asked.has_option("eager"):
            yield "PyTorch always runs eagerly: remove +eager"
        if asked.has_option("xla"):
            yield "PyTorch is not compiled by XLA here: remove +xla"
        if asked.has_option("compile") and asked.written_in == "keras":
            yield "+compile is only for a PyTorch module of your own"

    def layer_reasons(self, asked: Combination) -> Iterator[str]:
        if not asked.has_kernel("cudnn"):
            return
        if asked.traits.mask != "none":
            yield self.no_mask_reason
        if asked.traits.stateful and not asked.has_option("bf16", "fp16"):
            # mixed precision casts the states, and a cast is a copy
            yield (
                "Keras' stateful layers on PyTorch overwrite states that cuDNN's backward pass"
                " still needs"
            )
