"""Rules for which implementation can run which layers on which device, and the reason if not.

The rules here hold for every backend; each backend adds its own (`workloads.backends.NAME`). They
import no framework. The rules for `cudnn` are Keras' (3.15: `keras/src/layers/rnn/`, and `rnn.py`
of its backends), which silently runs another kernel in some cases; tests compare them. The rules
for `fused` are the rules of the library call (`Backend.fused`).
"""

import importlib.util
from collections.abc import Callable, Iterator

from workloads.backends.backend import Backend, Combination, ModelKind
from workloads.backends.registry import backends, find_backend
from workloads.implementations import AUTO, MIN_CAPABILITY, OPTIONS, Implementation
from workloads.layer_traits import LayerTraits
from workloads.protocol import Device, TimedWork

NO_CUDNN_ON_CPU = "cuDNN kernels need an NVIDIA GPU"


def ineligibility_reason(
    implementation: Implementation,
    traits: LayerTraits,
    device: Device,
    *,
    capability: float | None = None,
    written_in: ModelKind = "keras",
    timed_work: TimedWork = "train",
    has_package: Callable[[str], bool] | None = None,
) -> str | None:
    """Return why `implementation` cannot run layers of these traits on that device; None if it can.

    `capability` is the GPU's compute capability if it is known, `written_in` what the layers are
    written with, and `timed_work` what is timed. `has_package` returns True if a package is
    installed; by default it looks on this machine. The first reason counts: the device, then
    conflicts between options, then the kernel and the layers. Raise `ImplementationError` for a
    backend that is not registered.
    """
    backend = find_backend(implementation.backend)
    if not (has_package or is_installed)(backend.package):
        return f"{backend.name} is not installed here: {backend.how_to_install}"
    asked = Combination(implementation, traits, device, capability, written_in, timed_work)
    return next(_reasons(backend, asked), None)


def layer_ineligibility_reason(implementation: Implementation, traits: LayerTraits) -> str | None:
    """Return what the kernel's library lacks for layers of these traits, on any device."""
    backend = find_backend(implementation.backend)
    return next(_library_reasons(backend, Combination(implementation, traits, "gpu")), None)


def module_ineligibility_reason(
    implementation: Implementation, device: Device, float_type: str
) -> str | None:
    """Return why an implementation cannot run a PyTorch module on that device; None if it can.

    `float_type` is the number format of its weights, as NumPy names it.
    """
    if not find_backend(implementation.backend).runs_modules:
        return "a PyTorch module runs only on PyTorch: use torch/auto"
    if implementation.kernel != AUTO:
        return "a PyTorch module runs as it is written: use torch/auto, or one of its options"
    if float_type != "float32" and implementation.precision != "float32":
        return (
            f"+{implementation.precision} is for weights in float32, and the module's are"
            f" {float_type}: build it in float32"
        )
    return ineligibility_reason(implementation, LayerTraits(), device, written_in="torch")


def is_installed(package: str) -> bool:
    """Return True if a package can be imported here, without importing it."""
    return importlib.util.find_spec(package) is not None


def no_unrolling_reason(library: str) -> str:
    """Return why a library's call cannot run an unrolled layer."""
    return f"{library} runs the whole sequence in one call and cannot be unrolled"


def no_recurrent_dropout_reason(library: str, rate: float) -> str:
    """Return why a library's call cannot run a layer with recurrent dropout."""
    return f"{library} has no recurrent dropout (recurrent_dropout is {rate})"


def _reasons(backend: Backend, asked: Combination) -> Iterator[str]:
    """Yield all reasons, the most fundamental first."""
    yield from _device_reasons(backend, asked)
    yield from backend.device_reasons(asked)
    yield from backend.option_reasons(asked)
    yield from _option_reasons(backend, asked)
    yield from _library_reasons(backend, asked)


def _library_reasons(backend: Backend, asked: Combination) -> Iterator[str]:
    """Yield what the kernel's library lacks for the layers."""
    if backend.kernel_library(asked.implementation.kernel):  # Keras' portable layers lack nothing
        yield from _kernel_reasons(backend, asked)
        yield from backend.layer_reasons(asked)
        yield from _layer_reasons(backend, asked)


def _device_reasons(backend: Backend, asked: Combination) -> Iterator[str]:
    if asked.has_kernel("fused") and backend.fused is None:
        yield f"{backend.title} has no library call for a whole stack of layers"
    if asked.device == "gpu":
        precision = asked.implementation.precision
        needed = MIN_CAPABILITY.get(precision, 0.0)
        if (asked.capability or needed) < needed:
            has = f"the GPU has {asked.capability}"
            yield f"+{precision} needs compute capability {needed}, and {has}"
        return
    if asked.has_kernel("cudnn"):
        yield NO_CUDNN_ON_CPU
    if asked.has_kernel("fused") and backend.fused and not backend.fused.on_cpu:
        yield f"{backend.fused.name} has no CPU kernel: it needs an NVIDIA GPU"
    if asked.has_option("tf32"):
        yield "TF32 is a number format of NVIDIA's GPUs"


def _option_reasons(backend: Backend, asked: Combination) -> Iterator[str]:
    library = backend.kernel_library(asked.implementation.kernel)
    for option in asked.implementation.options:
        if option not in OPTIONS and option not in backend.options:
            yield f"{backend.title} has no option +{option}"
    if asked.has_option("eager") and asked.has_option("xla"):
        yield "+eager has no graph that +xla could compile"
    if asked.has_option("unroll") and asked.has_kernel(AUTO):
        yield "auto measures the layers as they are written: remove +unroll"
    if asked.has_option("unroll") and library:
        yield no_unrolling_reason(library)
    if asked.has_option("unroll") and backend.is_eager(asked.implementation):
        yield "without a graph there is nothing to unroll: remove +unroll"


def _kernel_reasons(backend: Backend, asked: Combination) -> Iterator[str]:
    """Yield why the library's call does not have the cell."""
    cell = asked.traits.cell
    if asked.has_kernel("cudnn") and not asked.traits.is_gated:
        able = [b.name for b in backends().values() if b.fused and cell in b.fused.cells]
        see = f": see {', '.join(f'{name}/fused' for name in able)}" if able else ""
        yield f"Keras' SimpleRNN has no cuDNN path ({cell}){see}"
    if asked.has_kernel("fused") and backend.fused and cell not in backend.fused.cells:
        cells = " and ".join(backend.fused.cells)
        noun = "cell" if len(backend.fused.cells) == 1 else "cells"
        yield f"{backend.fused.name} supports only the {cells} {noun}, not {cell}"


def _layer_reasons(backend: Backend, asked: Combination) -> Iterator[str]:
    """Yield what any library's call lacks for the layers."""
    traits, library = asked.traits, backend.kernel_library(asked.implementation.kernel)
    if traits.is_gated and traits.activation != "tanh":
        yield f"{library} supports only the activation tanh, not {traits.activation}"
    if traits.is_gated and (recurrent := traits.recurrent_activation) != "sigmoid":
        yield f"{library} supports only the recurrent activation sigmoid, not {recurrent}"
    if (rate := traits.recurrent_dropout) > 0:
        yield no_recurrent_dropout_reason(library, rate)
    if asked.has_kernel("cudnn") and not traits.use_bias:
        yield "Keras' cuDNN path needs the bias (use_bias is false)"
    if asked.has_kernel("fused") and not traits.use_bias:
        yield "the fused layer always has a bias (use_bias is false)"
    if traits.mask == "left":
        yield f"{library} supports only padding on the right, and the padding is on the left"
    if asked.has_kernel("fused") and traits.stateful and traits.mask != "none":
        yield "a stateful fused layer takes no mask"
