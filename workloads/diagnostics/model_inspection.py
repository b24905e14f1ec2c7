"""Build a user's own model and load its data before any trial, in a process of one backend.

All that a trial would stumble over later is found here, with the location in the user's code.
"""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from workloads.backends.full_memory import memory_complaint
from workloads.backends.loading import load_framework
from workloads.backends.stack_call import LEFT_PADDED
from workloads.data.class_weights import with_class_weights
from workloads.data.samples import DataSet, full_batches
from workloads.diagnostics.failed_pass import failed_pass
from workloads.diagnostics.first_batches import FailsHere, FirstBatches
from workloads.diagnostics.value_ranges import (
    find_unusual_padding,
    find_value_out_of_range,
)
from workloads.entry import explain_other_package
from workloads.failures import LESS_MEMORY, SAME_DATA, BadRequest, DataError, TrialError
from workloads.implementations import AUTO, Implementation, parse_implementation
from workloads.model_facts import (
    ArmFact,
    FaultKind,
    Inspection,
    InspectionRequest,
    ModelFacts,
    ModelFault,
)
from workloads.modules.own_module import OwnModule
from workloads.own_code import describe_error, read_code
from workloads.own_import import OwnModelImport, import_own_model
from workloads.protocol import Device
from workloads.registry import find_workload
from workloads.settings import check_settings
from workloads.tasks.own_model.loaded import types_of
from workloads.tasks.own_model.random_data import no_random_data_for_module, random_data
from workloads.tasks.own_model.settings import OwnModelSettings
from workloads.tasks.own_model.task import location_of

_QUICK_LOADING_S = 10.0
"""Data that load within this time are loaded twice, to see whether they are the same."""

_DEVICES: tuple[Device, ...] = ("cpu", "gpu")

_AS_WRITTEN = Implementation("any", AUTO)

_RECORDABLE = re.compile(r"\w[\w.\- ]*(/\w[\w.\- ]*)*")
"""A name of a metric that MLflow stores on every system."""


def inspect_own_model(request: InspectionRequest) -> Inspection:
    """Return the facts of an own model on the backend of this process, or why it cannot be used."""
    try:
        framework = load_framework(parse_implementation(request.implementations[0]).backend)
        imported = import_own_model(find_workload(request.workload), framework, "cpu")
        if imported.refusal is not None:
            return ModelFault("failed", imported.refusal)
        facts = _Inspector(request, imported).inspect()
        return replace(facts, import_notes=imported.notes)
    except _SearchedData as error:
        return ModelFault("refused", str(error), error.setting)
    except FailsHere as error:
        return ModelFault("failed", f"{error.place}: {error}\n{error.advice}")
    except TrialError as error:
        return ModelFault("refused", str(error))
    except BaseException as error:  # noqa: BLE001 - the code of a user may also end the process
        advice = explain_other_package(error)
        kind: FaultKind = "lacking" if isinstance(error, ImportError) and not advice else "failed"
        text = describe_error(error, read_code(request.workload))
        if isinstance(error, KeyError) and error.args and error.args[0] not in request.probes[0]:
            text += f"\nif {error.args[0]} is a setting, add it to settings or search.space"
        if passed := failed_pass(error):
            text += f"\n{passed} of a training step failed"
        if memory_complaint(error) is not None:
            text += f"\nthis machine has too little memory for the model: {LESS_MEMORY}"
        return ModelFault(kind, f"{text}\n{advice}" if advice else text)


class _SearchedData(DataError):
    """Data that depend on a setting which differs between blocks or variants."""

    def __init__(self, message: str, setting: str) -> None:
        super().__init__(message)
        self.setting = setting


class _RecordedSettings(dict[str, Any]):
    """Settings that record which names are read; a copy or a loop reads all of them."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        super().__init__(settings)
        self.read = set[str]()

    def __getitem__(self, name: str) -> Any:
        self.read.add(name)
        return super().__getitem__(name)

    def get(self, name: str, default: Any = None) -> Any:
        """Return a setting, or the default if there is none of this name."""
        self.read.add(name)
        return super().get(name, default)

    def __iter__(self) -> Iterator[str]:
        self.read.update(super().keys())
        return super().__iter__()

    def keys(self) -> Any:
        """Return all names."""
        self.read.update(super().keys())
        return super().keys()

    def items(self) -> Any:
        """Return all names and values."""
        self.read.update(super().keys())
        return super().items()

    def values(self) -> Any:
        """Return all values."""
        self.read.update(super().keys())
        return super().values()


class _Inspector:
    """The inspection of one own model, for all of its probes."""

    def __init__(self, request: InspectionRequest, imported: OwnModelImport) -> None:
        self._request, self._functions = request, imported.functions
        self._format = imported.number_format
        self._reason_as_written: str | None = None
        self._padding: str | None = None
        self._probes = [check_settings(OwnModelSettings, probe) for probe in request.probes]
        self._first_batches = FirstBatches(imported.functions, request.timed_work, request.workload)

    def inspect(self) -> ModelFacts:
        """Load, build, try a batch, and examine the model of each probe."""
        first = self._probes[0].as_user_settings()
        batch_size = self._probes[0].batch_size
        model = self._build_alike_twice(first)
        if isinstance(model, OwnModule):
            return self._inspect_module(model, first, batch_size)
        has_data = self._functions.load is not None
        data = (
            self._load_once(first, batch_size)
            if has_data
            else random_data(model, batch_size, location_of(self._functions.build))
        )
        self._expect_classes(data)
        if self._functions.load is not None:
            if found := find_value_out_of_range(model, data):
                raise DataError(f"{location_of(self._functions.load)}: {found}")
            self._padding = find_unusual_padding(model, data)
        try:
            metrics = self._first_batches.try_model(model, data, batch_size)
        except FailsHere as error:
            metrics = self._try_without_cudnn(first, data, batch_size, error)
            self._reason_as_written = str(error)
        _expect_recordable(metrics, location_of(self._functions.build))
        callbacks = self._inspect_callbacks(metrics)
        from workloads.models.layers import stateful_layers  # noqa: PLC0415 - imports Keras

        arms = list[ArmFact]()
        for index, probe in enumerate(self._probes):
            arms += self._examine(self._with_initial_weights(probe, data), index)
        if not has_data:
            return ModelFacts((), None, tuple(arms), callbacks=callbacks)
        carried = tuple(layer.name for layer in stateful_layers(model))
        if carried:
            self._expect_full_batches(data, batch_size)
        return ModelFacts(
            metrics,
            data.digest,
            tuple(arms),
            carried=carried,
            callbacks=callbacks,
            data_types=types_of(data.train),
        )

    def _inspect_module(
        self, own: OwnModule, settings: Mapping[str, Any], batch_size: int
    ) -> ModelFacts:
        """Load the data, try a batch, and examine the PyTorch module of each probe."""
        from workloads.diagnostics import module_inspection  # noqa: PLC0415 - imports PyTorch

        load, asked = self._functions.load, self._request
        if load is None:
            raise no_random_data_for_module(own.location)
        data = self._load_once(settings, batch_size)
        code = read_code(asked.workload)
        tried = module_inspection.try_module(
            own,
            data,
            location_of(load),
            asked.timed_work,
            code,
            batch_size,
            self._probes[0].shuffle,
        )
        names = tried.metrics
        _expect_recordable(names, own.location)
        modules = [own, *(self._build(p.as_user_settings()) for p in self._probes[1:])]
        arms = [
            fact
            for index, module in enumerate(modules)
            for fact in module_inspection.examine_module(
                module, data, asked.implementations, index, self._probes[index].batch_size
            )
        ]
        graphs = None
        running = {arm.implementation for arm in arms if arm.reason is None}
        if any("compile" in parse_implementation(text).options for text in running):
            graphs = module_inspection.graphs_of_module(own, data, asked.timed_work, batch_size)
        return ModelFacts(
            names[:1],
            data.digest,
            tuple(arms),
            validation_metrics=tuple(f"val_{name}" for name in names[1:]),
            carried=tried.carried,
            data_types=types_of(data.train),
            graphs=graphs,
        )

    def _inspect_callbacks(self, metrics: Sequence[str]) -> tuple[str, ...]:
        """Return the classes of the user's callbacks; raise `BadRequest` if they cannot be used.

        `metrics` are those of training; none where predictions are timed.
        """
        function = self._functions.callbacks
        if function is None:
            return ()
        from workloads.models.epoch_callbacks import unknown_monitor  # noqa: PLC0415 - Keras

        location = location_of(function)
        settings = [probe.as_user_settings() for probe in self._probes]
        made = [self._functions.make_callbacks(each) for each in (*settings, settings[0])]
        if {*map(id, made[0])} & {*map(id, made[-1])}:
            raise BadRequest(
                f"{location}: two calls return the same callbacks, which remember an earlier"
                " training: make new ones in the function"
            )
        known = (*metrics, *(f"val_{name}" for name in metrics), "learning_rate")
        for callbacks in made if metrics else []:
            if unknown := unknown_monitor(callbacks, known):
                raise BadRequest(
                    f"{location}: {unknown[0]} monitors {unknown[1]!r}, which is no metric of the"
                    f" model ({', '.join(known[:-1])})"
                )
        return tuple(type(callback).__name__ for callback in made[0])

    def _build(self, settings: Mapping[str, Any]) -> Any:
        from workloads.backends.framework import set_dtype_policy  # noqa: PLC0415 - imports Keras

        set_dtype_policy(_AS_WRITTEN, self._format)  # which `clear_session` has forgotten
        return self._functions.build_model(settings, self._request.timed_work)

    def _load_once(self, settings: Mapping[str, Any], batch_size: int) -> DataSet:
        """Return the data; raise `_SearchedData` if they differ between blocks or variants.

        Raise `DataError` if a second call returns others; what loads slowly is loaded once only.
        """
        recorded, began_s = _RecordedSettings(settings), time.monotonic()
        data = self._functions.load_data(recorded, batch_size)
        is_quick = time.monotonic() - began_s < _QUICK_LOADING_S
        if is_quick and self._functions.load_data(settings, batch_size).digest != data.digest:
            assert self._functions.load is not None  # it has just been called
            raise DataError(
                f"{location_of(self._functions.load)} returns different data in each call:"
                f" {SAME_DATA}"
            )
        suspects = recorded.read & set(self._request.searched)
        for probe in self._probes[1:]:
            varied = probe.as_user_settings()
            changed = {n for n in suspects if varied.get(n) != settings.get(n)}
            if changed and self._functions.load_data(varied, batch_size).digest != data.digest:
                name = min(changed)
                load = self._functions.load
                assert load is not None  # it has just been called
                raise _SearchedData(
                    f"{location_of(load)}: the data depend on {name!r}, and all trials of a sweep"
                    f" must read the same data: move {name} to settings, and use another sweep for"
                    " other data",
                    name,
                )
            suspects -= changed
        return data

    def _build_alike_twice(self, settings: Mapping[str, Any]) -> Any:
        """Return the model; raise `BadRequest` if a second call builds another one."""
        import keras  # noqa: PLC0415 - the framework of this process

        models = []
        for _ in range(2):
            keras.utils.clear_session()  # the automatic names of layers begin anew
            models.append(self._build(settings))
        first, second = map(_config_digest, models)
        if first != second:
            raise BadRequest(
                f"{location_of(self._functions.build)} returns a different model in each call: draw"
                " nothing at random there, or use a fixed seed"
            )
        return models[1]

    def _with_initial_weights(self, probe: OwnModelSettings, data: DataSet) -> Any:
        """Return the model of a probe; raise `BadRequest` if its weights cannot be drawn."""
        from workloads.models.initial_weights import build_with_initial_weights  # noqa: PLC0415

        location = location_of(self._functions.build)
        try:
            return build_with_initial_weights(
                lambda: self._build(probe.as_user_settings()),
                seed=0,
                samples=data.train.first(probe.batch_size),
                weights=probe.weights,
            )
        except BadRequest as error:
            if str(error).startswith(location):
                raise
            raise BadRequest(f"{location}: {error}") from error

    def _expect_classes(self, data: DataSet) -> None:
        """Raise `BadRequest` for weights of classes that do not fit the data."""
        location = location_of(self._functions.load or self._functions.build)
        for weights in (probe.class_weight for probe in self._probes):
            if weights is None:
                continue
            try:
                with_class_weights(data.train, weights)
            except BadRequest as error:
                raise BadRequest(f"{location}: {error}") from error

    def _expect_full_batches(self, data: DataSet, batch_size: int) -> None:
        """Raise `DataError` for data without a full batch, which a carried state needs."""
        assert self._functions.load is not None  # random data are full batches
        location = location_of(self._functions.load)
        for name, samples in (("train", data.train), ("validation", data.validation)):
            full_batches(samples, batch_size, f"{location}: {name}")

    def _try_without_cudnn(
        self,
        settings: Mapping[str, Any],
        data: DataSet,
        batch_size: int,
        error: FailsHere,
    ) -> tuple[str, ...]:
        """Try the layers without Keras' path to a library; raise the error if that fails, too."""
        from workloads.models.rewriting import switch_layers  # noqa: PLC0415 - imports Keras

        model = self._build(settings)
        switch_layers(model, use_cudnn=False, unroll=False)
        try:
            return self._first_batches.try_model(model, data, batch_size)
        except FailsHere:
            raise error from None

    def _examine(self, model: Any, probe: int) -> Iterator[ArmFact]:
        """Yield whether each implementation can run a model, on each device."""
        from workloads.models.rewriting import examine_rewrite  # noqa: PLC0415 - imports Keras

        for text in self._request.implementations:
            implementation = parse_implementation(text)
            for device in _DEVICES:
                examination = examine_rewrite(model, implementation, device)
                is_masked = device == "gpu" and examination.is_masked
                reason = self._format and self._format.refusal_reason(implementation)
                if implementation.kernel == AUTO:
                    reason = reason or self._reason_as_written
                reason = reason or examination.reason
                in_library = is_masked or implementation.kernel == "fused"
                if self._padding and examination.is_masked and in_library:
                    reason = reason or f"{LEFT_PADDED}: {self._padding}"
                yield ArmFact(probe, text, device, reason, is_masked)


def _expect_recordable(names: tuple[str, ...], location: str) -> None:
    """Raise `BadRequest` for metrics that the tracking store would refuse after a trial."""
    for name in names:
        if not _RECORDABLE.fullmatch(name):
            raise BadRequest(
                f"{location}: MLflow cannot store a metric named {name!r}: use only letters,"
                " digits, '_', '-', '.', '/' and spaces"
            )


def _config_digest(model: Any) -> str:
    """Return a digest of a model's configuration and of the shapes of its weights."""
    if isinstance(model, OwnModule):
        from workloads.diagnostics.module_inspection import describe_module  # noqa: PLC0415

        return hashlib.sha256(describe_module(model).encode()).hexdigest()
    try:
        config = json.dumps([model.get_config(), model.get_compile_config()], default=repr)
    except NotImplementedError:  # a subclassed model without a config
        config = type(model).__name__
    shapes = [tuple(variable.shape) for variable in model.weights]
    return hashlib.sha256(f"{config}{shapes}".encode()).hexdigest()
