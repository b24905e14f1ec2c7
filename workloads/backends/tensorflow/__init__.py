"""TensorFlow: what everybody reads. Imports no framework."""

from collections.abc import Iterator, Mapping

from workloads.backends.backend import CUDNN, Backend, Combination, FusedCall
from workloads.layer_traits import CELLS
from workloads.protocol import Device


class TensorFlow(Backend):
    """TensorFlow, whose graphs XLA compiles on request."""

    name = "tensorflow"
    title = "TensorFlow"
    package = "tensorflow"
    install = "pip install tensorflow"
    framework = "workloads.backends.tensorflow.framework:TensorFlowFramework"
    fused = FusedCall("CudnnRNNV3", CUDNN, CELLS)
    data_set_classes = ("DatasetV2",)
    global_seed = "random.set_seed"
    import_code = "import tensorflow as tf"
    tf32_code = "tf.config.experimental.enable_tensor_float_32_execution(True)"
    threads_code = "tf.config.threading.set_intra_op_parallelism_threads({threads})"
    memory_complaints = ("OOM when",)
    gpu_advice = "its CUDA packages are installed: pip install 'rnnsweep[gpu]'"

    def environment(self, device: Device) -> Mapping[str, str]:
        return {
            "CUDA_CACHE_MAXSIZE": str(2**32),  # it compiles for a Hopper in minutes, once
            # Level 1 shows the warning that tells why it sees no GPU.
            "TF_CPP_MIN_LOG_LEVEL": "1" if device == "gpu" else "2",
            "TF_FORCE_GPU_ALLOW_GROWTH": "true",
        }

    def option_reasons(self, asked: Combination) -> Iterator[str]:
        if not self.kernel_library(asked.implementation.kernel):
            return
        if asked.has_option("xla"):
            yield "TensorFlow's CudnnRNN ops have no XLA kernel: remove +xla"
        if asked.has_option("bf16"):
            # "CudnnRnn doesn't support bfloat16 yet, so cast to float" (cudnn_rnn_ops.cc)
            yield "TensorFlow's CudnnRNN ops would silently compute in float32 instead of bfloat16"
