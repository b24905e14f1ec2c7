"""JAX: what everybody reads. Imports no framework."""

from collections.abc import Iterator, Mapping

from workloads.backends.backend import CUDNN, Backend, Combination, FusedCall
from workloads.protocol import Device


class Jax(Backend):
    """JAX, whose programs XLA always compiles, unless they run eagerly."""

    name = "jax"
    title = "JAX"
    package = "jax"
    install = "pip install 'rnnsweep[jax]'"
    framework = "workloads.backends.jax.framework:JaxFramework"
    distributions = ("jax", "jaxlib")
    fused = FusedCall("jax.experimental.rnn", CUDNN, ("lstm",))
    always_compiled = True
    ignores_use_cudnn = ("gru",)
    import_code = "import jax"
    tf32_code = 'jax.config.update("jax_default_matmul_precision", None)'
    threads_variable = "PJRT_NPROC"
    gpu_advice = "its CUDA packages are installed: pip install 'jax[cuda13]', or 'jax[cuda12]'"
    gpu_peculiarity = (
        "JAX copies the sequences' lengths to the host in each cuDNN call, and gives it four times"
        " the memory that cuDNN asks for"
    )
    # jaxlib's gpu_rnn.py takes cuDNN's sizes in bytes for numbers of float32.
    memory_note = " (JAX gives each cuDNN call four times the memory that cuDNN asks for)"

    def environment(self, device: Device) -> Mapping[str, str]:
        variables = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
        if device == "cpu":
            variables["JAX_PLATFORMS"] = "cpu"  # it would look for other accelerators, and warn
        return variables

    def option_reasons(self, asked: Combination) -> Iterator[str]:
        if asked.has_option("xla") and not asked.has_option("eager"):
            yield "JAX's programs are always compiled by XLA: remove +xla"
        if asked.has_option("eager") and asked.timed_work == "predict":
            yield (
                "JAX would compile the loop over the steps again in each eager prediction: remove"
                " +eager"
            )
        if asked.has_option("bf16", "fp16") and self.kernel_library(asked.implementation.kernel):
            yield "JAX's cuDNN call supports float32 only"

    def layer_reasons(self, asked: Combination) -> Iterator[str]:
        traits = asked.traits
        if asked.has_kernel("cudnn") and traits.cell == "gru":
            yield "JAX has no cuDNN GRU: Keras would silently run a scan instead"
        if asked.has_kernel("cudnn") and traits.mask != "none":
            yield self.no_mask_reason
        if asked.has_kernel("fused") and traits.layers > 1 and traits.dropout > 0:
            yield (
                "jax.experimental.rnn cannot draw a new dropout mask at each step"
                f" (dropout between layers is {traits.dropout})"
            )
