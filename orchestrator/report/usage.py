"""The lines of Python that put an implementation to use in a program without rnnsweep."""

from collections.abc import Iterable, Iterator

from orchestrator.core.arms import Arm
from orchestrator.core.trial import FinishedTrial
from workloads.backends.registry import backends, parse_known_implementation
from workloads.implementations import AUTO, Implementation, ImplementationError
from workloads.protocol import MODEL_KIND, MODULE_KIND

_POLICIES = {"bf16": "mixed_bfloat16", "fp16": "mixed_float16"}
_AUTOCAST_TYPES = {"bf16": "torch.bfloat16", "fp16": "torch.float16"}


def usage_lines(arm: Arm, trials: Iterable[FinishedTrial]) -> tuple[str, ...]:
    """Return the lines that put an arm to use for the model or module that these trials trained.

    There are none for an implementation of the user's own.
    """
    try:
        implementation = parse_known_implementation(arm.implementation)
    except ImplementationError:
        return ()
    kinds = {trial.outcome.environment.get(MODEL_KIND) for trial in trials}
    lines = _module_lines if MODULE_KIND in kinds else _keras_lines
    return (*lines(implementation), *_threads_lines(implementation, arm.usage.threads))


def _threads_lines(implementation: Implementation, threads: int | None) -> Iterator[str]:
    """Yield how the number of threads is set, if the arm has one of its own."""
    code = backends()[implementation.backend].threads_code
    if threads is not None and code:
        yield f"{code.format(threads=threads)} # before the first operation"


def _module_lines(implementation: Implementation) -> Iterator[str]:
    backend = backends()[implementation.backend]
    if implementation.kernel == AUTO and not implementation.options:
        yield "outputs = module(inputs) # the module as it is written"
    if "compile" in implementation.options:
        yield "module = torch.compile(module)"
    if dtype := _AUTOCAST_TYPES.get(implementation.precision):
        yield f"with torch.autocast(device, {dtype}): # around each call, and around the loss"
    if implementation.precision == "fp16":
        yield "scaler = torch.amp.GradScaler(device) # scales the loss before backward, to train"
    if implementation.precision == "tf32" and backend.tf32_code:
        yield backend.tf32_code


def _keras_lines(implementation: Implementation) -> Iterator[str]:
    """Yield the lines of Keras code that make a model run as this implementation does."""
    backend = backends()[implementation.backend]
    yield f'os.environ["KERAS_BACKEND"] = "{backend.keras_name}" # before Keras is imported'
    if policy := _POLICIES.get(implementation.precision):
        yield f'keras.config.set_dtype_policy("{policy}") # before the model is built'
    if implementation.precision == "tf32" and backend.tf32_code:
        yield backend.tf32_code
    if implementation.kernel == "fused":
        yield f'model = rnnsweep.convert(model, "{implementation}") # after it is built'
        return
    if implementation.kernel != AUTO:
        is_cudnn = implementation.kernel == "cudnn"
        unrolled = ", unroll=True" if "unroll" in implementation.options else ""
        yield f"keras.layers.LSTM(…, use_cudnn={is_cudnn}{unrolled}) # and GRU alike"
    if backend.is_eager(implementation) and not backend.always_eager:
        yield "model.compile(…, run_eagerly=True)"
    elif not backend.always_eager and (
        implementation.kernel != AUTO or "xla" in implementation.options
    ):
        yield f"model.compile(…, jit_compile={backend.is_compiled(implementation)})"
