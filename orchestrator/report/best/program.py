"""The Python that puts an implementation to use in a program without rnnsweep."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from orchestrator.core.arms import Arm
from orchestrator.core.text import joined
from orchestrator.core.trial import FinishedTrial
from workloads.backends.backend import Backend, ModuleCode
from workloads.backends.registry import backends, parse_known_implementation
from workloads.implementations import AUTO, DTYPE_POLICIES, Implementation, ImplementationError
from workloads.protocol import MODEL_KIND, MODULE_KIND, RECURRENT_LAYERS

_GATED = ("keras.layers.LSTM", "keras.layers.GRU")
"""The layers that have an argument `use_cudnn`."""

_OF_KERAS = ("LSTM", "GRU", "SimpleRNN", "RNN")


class _LayerOptions(NamedTuple):
    """Arguments of the constructors of these classes of recurrent layers."""

    classes: tuple[str, ...]
    options: Mapping[str, bool]


def implementation_program(arm: Arm, trials: Sequence[FinishedTrial]) -> str:
    """Return a module that puts an arm to use for the model or module that these trials trained.

    It can be imported as it is. What concerns the reader's own model or module is a function that
    takes it, or the options of its layers and of its compilation. It is empty for an implementation
    of the user's own.
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
        options = _layer_options(implementation, arm, trials)
        _write_keras_program(program, implementation, backend, options)
    return program.text()


def _trained_a_module(trials: Iterable[FinishedTrial]) -> bool:
    return any(trial.outcome.environment.get(MODEL_KIND) == MODULE_KIND for trial in trials)


def _threads_code(backend: Backend, threads: int | None) -> str:
    """Return the line that sets the number of threads, if the arm has one of its own."""
    if threads is None:
        return ""
    if backend.threads_variable:
        return f'os.environ["{backend.threads_variable}"] = "{threads}"'
    return backend.threads_code.format(threads=threads)


def _layer_options(
    implementation: Implementation, arm: Arm, trials: Iterable[FinishedTrial]
) -> list[_LayerOptions]:
    """Return the arguments that choose the kernel of the layers in the trials of an arm."""
    if implementation.kernel == AUTO:
        return []
    unrolled = {"unroll": True} if "unroll" in implementation.options else {}
    gated = {"use_cudnn": implementation.kernel == "cudnn", **unrolled}
    classes = _recurrent_classes(arm, trials)
    groups = [
        _LayerOptions(tuple(c for c in classes if c in _GATED), gated),
        _LayerOptions(tuple(c for c in classes if c not in _GATED), unrolled),
    ]
    return [group for group in groups if group.classes and group.options]


def _recurrent_classes(arm: Arm, trials: Iterable[FinishedTrial]) -> list[str]:
    """Return the classes of the recurrent layers that the trials of an arm had, as code names them.

    These are Keras' gated layers where the trials are of a release that did not record them.
    """
    facts = [t.outcome.environment.get(RECURRENT_LAYERS) for t in trials if t.arm == arm]
    texts = [fact for fact in facts if isinstance(fact, str)]
    if not texts:
        return [*_GATED]
    names = {name for text in texts for name in text.split(", ") if name}
    of_keras = [f"keras.layers.{name}" if name in _OF_KERAS else name for name in names]
    return sorted(of_keras, reverse=True)


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
    program: _Program,
    implementation: Implementation,
    backend: Backend,
    layer_options: Iterable[_LayerOptions],
) -> None:
    program.environment.insert(0, f'os.environ["KERAS_BACKEND"] = "{backend.name}"')
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
    for classes, options in layer_options:
        variable = "layer_options" if classes[0] in _GATED else "other_layer_options"
        program.statements += [
            f"# {joined([f'{name}(…, **{variable})' for name in classes])}:",
            f"{variable} = dict({_as_arguments(options)})",
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
