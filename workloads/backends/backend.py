"""The light half of a backend: what everybody reads who does not run it. Imports no framework.

Planning asks it which arms can run, doctor how to install it, probing which packages to look for,
the trainer's parent for environment variables, reports for its name. The heavy half is a
`workloads.backends.framework.Framework`, which only a trainer process imports
(`workloads.backends.loading`).
"""

from abc import ABC
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias

from workloads.implementations import Implementation, Precision
from workloads.layer_traits import Cell, LayerTraits
from workloads.protocol import Device, TimedWork

CUDNN = "cuDNN"

CUDNN_PACKAGES = ("nvidia-cudnn-cu12", "nvidia-cudnn-cu13")
CUDA_PACKAGES = ("nvidia-cuda-runtime-cu12", "nvidia-cuda-runtime", *CUDNN_PACKAGES)
"""NVIDIA's packages on which the time of a trial may depend, whatever the backend."""

ModelKind: TypeAlias = Literal["keras", "torch", "unknown"]
"""What a model is written with: Keras' layers, or as a PyTorch module. A user's may be either."""


@dataclass(frozen=True, slots=True)
class FusedCall:
    """The library call of the kernel `fused`: its name, and what it can run."""

    name: str
    """The function that is called."""

    library: str
    """The library that then runs the whole sequence."""

    cells: tuple[Cell, ...]
    on_cpu: bool = False
    """False if the call has a kernel for NVIDIA's GPUs only."""


@dataclass(frozen=True, slots=True)
class ModuleCode:
    """The Python that makes a PyTorch module of a user's own run as an implementation does.

    Reports print it. The texts are expressions, in which `{device}` stands for the device.
    """

    devices: Mapping[Device, str]
    """What replaces `{device}`."""

    compiled: str
    """The `module` with the option `compile`."""

    low_precision: Mapping[Precision, str]
    """The context in which the module is called, for each precision that needs one."""

    loss_scaler: str
    """What scales the loss of a training in `fp16`."""


@dataclass(frozen=True, slots=True)
class Combination:
    """An implementation, layers and a device: what rules of eligibility are asked about."""

    implementation: Implementation
    traits: LayerTraits
    device: Device
    capability: float | None = None
    """The GPU's compute capability, if it is known."""
    written_in: ModelKind = "keras"
    timed_work: TimedWork = "train"

    def has_kernel(self, *kernels: str) -> bool:
        """Return True if the kernel is one of these."""
        return self.implementation.kernel in kernels

    def has_option(self, *options: str) -> bool:
        """Return True if one of these options is set."""
        return any(option in self.implementation.options for option in options)


class Backend(ABC):
    """A backend as everybody sees it. Subclass it, and add an instance to `registry`.

    Attributes without a value are required. The rules (`device_reasons`, `option_reasons`,
    `layer_reasons`) say what this backend cannot run, besides the rules that hold for every backend
    (`workloads.eligibility`). A reason is a sentence for people without its full stop; it says what
    to do where that is not plain.
    """

    name: ClassVar[str]
    """Keras' name of it (`KERAS_BACKEND`), and the first part of an implementation in specs."""

    title: ClassVar[str]
    """The name that people know."""

    package: ClassVar[str]
    """The Python package that a node must have: the name that is imported."""

    install: ClassVar[str]
    """The command that installs it."""

    install_on_cpu: ClassVar[str] = ""
    """How to install it on a machine without a GPU, if that saves gigabytes."""

    framework: ClassVar[str]
    """The `Framework` class, as `package.module:Class`; imported in a trainer process only."""

    distributions: ClassVar[tuple[str, ...]] = ()
    """Installed packages whose versions a time may depend on; by default `package` alone.

    The first one shows that a node has the backend.
    """

    options: ClassVar[Mapping[str, str]] = {}
    """Options besides `workloads.implementations.OPTIONS`, with their meanings."""

    fused: ClassVar[FusedCall | None] = None
    """The call of the kernel `fused`; None if the backend has none."""

    always_eager: ClassVar[bool] = False
    """True if it never makes a graph, with `+eager` or without."""

    module_code: ClassVar[ModuleCode | None] = None
    """The code for PyTorch modules of a user's own; None if the backend runs none."""

    always_compiled: ClassVar[bool] = False
    """True if XLA compiles every program, with `+xla` or without, unless it runs eagerly."""

    ignores_use_cudnn: ClassVar[tuple[Cell, ...]] = ()
    """The cells that Keras runs without cuDNN, and without a word, where `use_cudnn` is True."""

    data_set_classes: ClassVar[tuple[str, ...]] = ()
    """The package's classes of data sets whose objects yield batches: `load` may return one."""

    global_seed: ClassVar[str] = ""
    """The function that seeds the package's global generator, such as `random.set_seed`."""

    import_code: ClassVar[str] = ""
    """The line of Python that imports what the other lines use."""

    tf32_code: ClassVar[str] = ""
    """The line of Python that lets a GPU round the inputs of float32 products to TF32."""

    threads_code: ClassVar[str] = ""
    """The line of Python that sets the number of threads, with `{threads}` for the number."""

    threads_variable: ClassVar[str] = ""
    """The environment variable for the number of threads, on a backend without `threads_code`."""

    memory_complaints: ClassVar[tuple[str, ...]] = ()
    """What its errors say where memory is full, besides what CUDA, cuDNN, XLA and NumPy say."""

    gpu_advice: ClassVar[str] = "its build for CUDA is installed"
    """What to check if the framework sees no GPU, after "check that"."""

    gpu_peculiarity: ClassVar[str] = ""
    """How its cuDNN calls on a GPU differ from the calls of other backends, for the report."""

    memory_note: ClassVar[str] = ""
    """What makes cuDNN take more of a GPU's memory than on other backends, in parentheses."""

    @property
    def runs_modules(self) -> bool:
        """True if it runs PyTorch modules of a user's own."""
        return self.module_code is not None

    @property
    def how_to_install(self) -> str:
        """The command that installs it, and the smaller way for a machine without a GPU."""
        if not self.install_on_cpu:
            return self.install
        return f"{self.install} (without a GPU, {self.install_on_cpu})"

    def environment(self, device: Device) -> Mapping[str, str]:
        """Return environment variables of a trainer process, besides the ones for every backend.

        They are set for every trainer, whichever its backend: a user's own workload may import any.
        """
        return {}

    def device_reasons(self, asked: Combination) -> Iterator[str]:
        """Yield why it cannot run on the device, whatever the layers."""
        yield from ()

    def option_reasons(self, asked: Combination) -> Iterator[str]:
        """Yield which options it does not have, or not with the kernel."""
        yield from ()

    def layer_reasons(self, asked: Combination) -> Iterator[str]:
        """Yield what the library of `cudnn` or `fused` lacks for the layers; not for `portable`."""
        yield from ()

    def is_eager(self, implementation: Implementation) -> bool:
        """Return True if the implementation runs without any graph."""
        return self.always_eager or "eager" in implementation.options

    def is_compiled(self, implementation: Implementation) -> bool:
        """Return True if XLA compiles the program of the implementation."""
        if "xla" in implementation.options:
            return True
        return self.always_compiled and not self.is_eager(implementation)

    def kernel_library(self, kernel: str) -> str:
        """Return the library that runs a sequence in one call; "" if Keras loops over the steps."""
        if kernel == "cudnn":
            return CUDNN
        return self.fused.library if kernel == "fused" and self.fused else ""

    @property
    def no_mask_reason(self) -> str:
        """Why a layer with a mask cannot run on cuDNN, where Keras' path to it takes none."""
        return f"Keras' cuDNN path takes no mask on {self.name}"

    @property
    def recorded_distributions(self) -> tuple[str, ...]:
        """The installed packages whose versions are recorded."""
        return self.distributions or (self.package,)
