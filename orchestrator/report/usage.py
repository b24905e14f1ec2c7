"""The lines of Python that put an implementation to use in a program without rnnsweep."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from orchestrator.core.arms import Arm
from orchestrator.core.trial import FinishedTrial
from workloads.backends.backend import Backend, ModuleCode
from workloads.backends.registry import backends, parse_known_implementation
from workloads.implementations import AUTO, DTYPE_POLICIES, Implementation, ImplementationError
from workloads.protocol import MODEL_KIND, MODULE_KIND


def usage_lines(arm: Arm, trials: Iterable[FinishedTrial]) -> tuple[str, ...]:
    """Return the lines that put an arm to use for the model or module that these trials trained.

    There are none for an implementation of the user's own.
    """
    try:
        implementation = parse_known_implementation(arm.implementation)
    except ImplementationError:
        return ()
    backend = backends()[implementation.backend]
    if backend.module_code and _trained_a_module(trials):
        lines = _module_lines(implementation, backend, backend.module_code)
    else:
        lines = _keras_lines(implementation, backend)
    threads = _threads_code(backend, arm.usage.threads)
    return (*lines, f"{threads} # before the first operation") if threads else (*lines,)


def _trained_a_module(trials: Iterable[FinishedTrial]) -> bool:
    return any(trial.outcome.environment.get(MODEL_KIND) == MODULE_KIND for trial in trials)


def _threads_code(backend: Backend, threads: int | None) -> str:
    """Return the line that sets the number of threads, if the arm has one of its own."""
    if threads is None:
        return ""
    if backend.threads_variable:
        return f'os.environ["{backend.threads_variable}"] = "{threads}"'
    return backend.threads_code.format(threads=threads)


def _module_lines(
    implementation: Implementation, backend: Backend, code: ModuleCode
) -> Iterator[str]:
    if implementation.kernel == AUTO and not implementation.options:
        yield "outputs = module(inputs) # the module as it is written"
    if "compile" in implementation.options:
        yield f"module = {code.compiled}"
    if context := code.low_precision.get(implementation.precision):
        yield f"with {context.format(device='device')}: # around each call, and around the loss"
    if implementation.precision == "fp16":
        scaler = code.loss_scaler.format(device="device")
        yield f"scaler = {scaler} # scales the loss before backward, to train"
    if implementation.precision == "tf32" and backend.tf32_code:
        yield backend.tf32_code


def _keras_lines(implementation: Implementation, backend: Backend) -> Iterator[str]:
    """Yield the lines of Keras code that make a model run as this implementation does."""
    yield f'os.environ["KERAS_BACKEND"] = "{backend.keras_name}" # before Keras is imported'
    if policy := DTYPE_POLICIES.get(implementation.precision):
        yield f'keras.config.set_dtype_policy("{policy}") # before the model is built'
    if implementation.precision == "tf32" and backend.tf32_code:
        yield backend.tf32_code
    if implementation.kernel == "fused":
        yield f'model = rnnsweep.convert(model, "{implementation}") # after it is built'
        return
    if layer := _layer_options(implementation):
        yield f"keras.layers.LSTM(…, {_as_arguments(layer)}) # and GRU alike"
    if compilation := _compile_options(implementation, backend):
        yield f"model.compile(…, {_as_arguments(compilation)})"


def _layer_options(implementation: Implementation) -> dict[str, bool]:
    """Return the arguments of recurrent layers that choose the kernel."""
    if implementation.kernel == AUTO:
        return {}
    unrolled = {"unroll": True} if "unroll" in implementation.options else {}
    return {"use_cudnn": implementation.kernel == "cudnn", **unrolled}


def _compile_options(implementation: Implementation, backend: Backend) -> dict[str, bool]:
    """Return the arguments of `model.compile` that choose how steps are compiled."""
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
    backend = backends()[implementation.backend]
    program = _Program()
    program.set_threads(backend, arm.usage.threads)
    if backend.module_code and _trained_a_module(trials):
        device = backend.module_code.devices[arm.device]
        _write_module_program(program, implementation, backend, backend.module_code, device)
    else:
        _write_keras_program(program, implementation, backend)
    return program.text()


@dataclass
class _Program:
    """The parts of a module of Python, in their order."""

    environment: list[str] = field(default_factory=list)
    """Statements that come before the imports."""

    imports: set[str] = field(default_factory=set)
    statements: list[str] = field(default_factory=list)
    functions: list[str] = field(default_factory=list)

    def set_threads(self, backend: Backend, threads: int | None) -> None:
        code = _threads_code(backend, threads)
        if code and backend.threads_variable:
            self.environment.append(code)
        elif code:
            self.imports.add(backend.import_code)
            self.statements.append(f"{code}  # before the first operation")

    def allow_tf32(self, backend: Backend) -> None:
        if backend.tf32_code:
            self.imports.add(backend.import_code)
            self.statements.append(backend.tf32_code)

    def text(self) -> str:
        lines = ["import os", "", *self.environment, ""] if self.environment else []
        lines += sorted(self.imports)
        lines += ["", *self.statements] if self.statements else []
        lines += ["", "", *self.functions] if self.functions else []
        return "\n".join((*lines, ""))


def _write_keras_program(
    program: _Program, implementation: Implementation, backend: Backend
) -> None:
    program.environment.insert(0, f'os.environ["KERAS_BACKEND"] = "{backend.keras_name}"')
    program.imports.add("import keras")
    if policy := DTYPE_POLICIES.get(implementation.precision):
        setting = f'keras.config.set_dtype_policy("{policy}")'
        program.statements.append(f"{setting}  # before the model is built")
    if implementation.precision == "tf32":
        program.allow_tf32(backend)
    if implementation.kernel == "fused":
        program.imports.add("import rnnsweep")
        program.functions = [
            "def convert(model):  # after it is built",
            f'    return rnnsweep.convert(model, "{implementation}")',
        ]
        return
    if layer := _layer_options(implementation):
        program.statements += [
            "# keras.layers.LSTM(…, **layer_options), and GRU alike:",
            f"layer_options = dict({_as_arguments(layer)})",
        ]
    if compilation := _compile_options(implementation, backend):
        program.statements += [
            "# model.compile(…, **compile_options):",
            f"compile_options = dict({_as_arguments(compilation)})",
        ]


def _write_module_program(
    program: _Program,
    implementation: Implementation,
    backend: Backend,
    code: ModuleCode,
    device: str,
) -> None:
    program.imports.add(backend.import_code)
    if implementation.precision == "tf32":
        program.allow_tf32(backend)
    if implementation.precision == "fp16":
        scaler = code.loss_scaler.format(device=device)
        program.statements.append(f"scaler = {scaler}  # scales the loss before backward, to train")
    if "compile" in implementation.options:
        program.functions += ["def prepare(module):", f"    return {code.compiled}", "", ""]
    program.functions.append("def call(module, inputs):")
    if context := code.low_precision.get(implementation.precision):
        program.functions.append(f"    with {context.format(device=device)}:  # the loss, too")
        program.functions.append("        return module(inputs)")
    else:
        program.functions.append("    return module(inputs)")
