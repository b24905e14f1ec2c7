"""The lines of Python that put an implementation to use in a program without rnnsweep."""

from collections.abc import Iterable, Iterator, Mapping

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
    if layer := _layer_options(implementation):
        yield f"keras.layers.LSTM(…, {_as_arguments(layer)}) # and GRU alike"
    if compilation := _compile_options(implementation):
        yield f"model.compile(…, {_as_arguments(compilation)})"


def _layer_options(implementation: Implementation) -> dict[str, bool]:
    """Return the arguments of recurrent layers that choose the kernel."""
    if implementation.kernel == AUTO:
        return {}
    unrolled = {"unroll": True} if "unroll" in implementation.options else {}
    return {"use_cudnn": implementation.kernel == "cudnn", **unrolled}


def _compile_options(implementation: Implementation) -> dict[str, bool]:
    """Return the arguments of `model.compile` that choose how steps are compiled."""
    backend = backends()[implementation.backend]
    if backend.always_eager:
        return {}
    if backend.is_eager(implementation):
        return {"run_eagerly": True}
    if implementation.kernel != AUTO or "xla" in implementation.options:
        return {"jit_compile": backend.is_compiled(implementation)}
    return {}


def _as_arguments(options: Mapping[str, bool]) -> str:
    return ", ".join(f"{name}={value}" for name, value in options.items())


def usage_program(arm: Arm, trials: Iterable[FinishedTrial]) -> str:
    """Return what `usage_lines` says as a module of Python, which can be imported as it is.

    What concerns the reader's own model or module is a function that takes it, or the options of
    its layers and of its compilation. It is empty for an implementation of the user's own.
    """
    try:
        implementation = parse_known_implementation(arm.implementation)
    except ImplementationError:
        return ""
    kinds = {trial.outcome.environment.get(MODEL_KIND) for trial in trials}
    threads = backends()[implementation.backend].threads_code if arm.usage.threads else ""
    threads = threads.format(threads=arm.usage.threads)
    if MODULE_KIND in kinds:
        return _module_program(implementation, arm.device, threads)
    return _keras_program(implementation, threads)


def _keras_program(implementation: Implementation, threads: str) -> str:
    backend = backends()[implementation.backend]
    environment = [f'os.environ["KERAS_BACKEND"] = "{backend.keras_name}"']
    imports, statements = ["import keras"], list[str]()
    if threads.startswith("os."):
        environment.append(threads)
    elif threads:
        imports.append(backend.import_code)
        statements.append(f"{threads}  # before the first operation")
    if policy := _POLICIES.get(implementation.precision):
        statements.append(f'keras.config.set_dtype_policy("{policy}")  # before the model is built')
    if implementation.precision == "tf32" and backend.tf32_code:
        imports.append(backend.import_code)
        statements.append(backend.tf32_code)
    functions = []
    if implementation.kernel == "fused":
        convert = f'return rnnsweep.convert(model, "{implementation}")'
        imports.append("import rnnsweep")
        functions = ["def convert(model):  # after it is built", f"    {convert}"]
    else:
        statements += _options_of_layers_and_compilation(implementation)
    head = ["import os", "", *environment, ""]
    return _program(head, imports, statements, functions)


def _options_of_layers_and_compilation(implementation: Implementation) -> Iterator[str]:
    layer, compilation = _layer_options(implementation), _compile_options(implementation)
    if layer:
        yield "# keras.layers.LSTM(…, **layer_options), and GRU alike:"
        yield f"layer_options = dict({_as_arguments(layer)})"
    if compilation:
        yield "# model.compile(…, **compile_options):"
        yield f"compile_options = dict({_as_arguments(compilation)})"


def _module_program(implementation: Implementation, device: str, threads: str) -> str:
    backend = backends()[implementation.backend]
    torch_device = "cuda" if device == "gpu" else "cpu"
    statements = [threads] if threads else []
    if implementation.precision == "tf32" and backend.tf32_code:
        statements.append(backend.tf32_code)
    if implementation.precision == "fp16":
        scaler = f'scaler = torch.amp.GradScaler("{torch_device}")'
        statements.append(f"{scaler}  # scales the loss before backward, to train")
    functions = []
    if "compile" in implementation.options:
        functions += ["def prepare(module):", "    return torch.compile(module)", "", ""]
    functions.append("def call(module, inputs):")
    if dtype := _AUTOCAST_TYPES.get(implementation.precision):
        functions.append(f'    with torch.autocast("{torch_device}", {dtype}):  # the loss, too')
        functions.append("        return module(inputs)")
    else:
        functions.append("    return module(inputs)")
    return _program([], [backend.import_code], statements, functions)


def _program(
    head: list[str], imports: list[str], statements: list[str], functions: list[str]
) -> str:
    """Join the parts of a module."""
    lines = [*head, *sorted(set(imports))]
    lines += ["", *statements] if statements else []
    lines += ["", "", *functions] if functions else []
    return "\n".join((*lines, ""))
