"""The choices of a spec and which of them run here: workloads, settings, implementations.

`make docs` writes the part that is the same on every machine into `docs/workloads.md`.
"""

import typing
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic import ValidationError
from pydantic.fields import FieldInfo

from orchestrator.core.errors import Refusal
from orchestrator.core.formats import Format
from orchestrator.hardware import HardwareClass
from orchestrator.report.document import Column, Document, Section, Table, make_table
from orchestrator.spec import yaml_locations
from orchestrator.spec.errors import from_pydantic
from workloads import registry
from workloads.backends.registry import all_options, backends
from workloads.eligibility import ineligibility_reason
from workloads.implementations import KERNELS, Implementation
from workloads.layer_traits import LayerTraits
from workloads.metrics import sliced_metrics
from workloads.protocol import Device
from workloads.registry import Workload

CATALOGUE = Format("a catalogue of workloads", 2, id="rnnsweep-workloads")
DEVICES: Mapping[Device, str] = {"gpu": "an NVIDIA GPU", "cpu": "a CPU"}

PLAIN = [Implementation(backend, kernel) for backend in backends() for kernel in KERNELS]
"""Every backend with every kernel, without options."""


@dataclass(frozen=True, slots=True)
class Catalogue:
    """Hardware, workloads, and the user's settings for which eligibility is checked."""

    hardware: tuple[HardwareClass, ...]
    workloads: tuple[Workload, ...] = registry.BUILT_IN
    settings: Mapping[str, Any] = field(default_factory=dict)

    def reason(
        self, implementation: Implementation, task: Workload, hardware: HardwareClass
    ) -> str | None:
        """Return why an implementation cannot run a workload there; None if it can."""
        traits, capability = task.traits(self.settings), hardware.compute_capability
        return ineligibility_reason(implementation, traits, hardware.device, capability=capability)


def workload_catalogue(
    name: str, overrides: Sequence[str], hardware: tuple[HardwareClass, ...]
) -> Catalogue:
    """Return the catalogue of a built-in workload with these settings (`KEY=YAML`), or refuse."""
    try:
        workload = registry.find_workload(name)
    except registry.UnknownWorkload as error:
        raise Refusal(str(error)) from None
    if not workload.is_built_in:
        names = ", ".join(built_in.name for built_in in registry.BUILT_IN)
        raise Refusal(
            f"{name} is a workload of your own; its rules are unknown here. Expected a built-in "
            f"one: {names}"
        )
    document = yaml_locations.parse_yaml(
        "{}", source="--set", overrides=overrides, example="cell=gru"
    )
    try:
        workload.resolve(document.data)
    except ValidationError as error:
        assert workload.settings_model is not None
        raise document.refusal(from_pydantic(error, {(): workload.settings_model})) from None
    return Catalogue(hardware, (workload,), document.data)


_CHANGES: Mapping[str, LayerTraits] = {
    "one lstm layer": LayerTraits(),
    "cell gru": LayerTraits(cell="gru"),
    "cell rnn_tanh": LayerTraits(cell="rnn_tanh"),
    "cell rnn_relu": LayerTraits(cell="rnn_relu"),
    "activation relu": LayerTraits(activation="relu"),
    "recurrent_activation relu": LayerTraits(recurrent_activation="relu"),
    "recurrent_dropout": LayerTraits(recurrent_dropout=0.2),
    "use_bias false": LayerTraits(use_bias=False),
    "layers 2": LayerTraits(layers=2),
    "layers 2 with dropout": LayerTraits(layers=2, dropout=0.2),
    "bidirectional": LayerTraits(bidirectional=True),
    "padding right, masked": LayerTraits(mask="right"),
    "padding left, masked": LayerTraits(mask="left"),
    "stateful": LayerTraits(stateful=True),
}
"""Changes of one LSTM layer, by which kernels differ."""


def changes() -> Iterator[tuple[str, LayerTraits, tuple[str, ...]]]:
    """Yield names of changes with the layers and the options: none, each trait, each option."""
    yield from ((name, traits, ()) for name, traits in _CHANGES.items())
    yield from ((f"+{option}", LayerTraits(), (option,)) for option in all_options())


def needs() -> Iterator[dict[str, str | None]]:
    """Yield every change on every implementation that runs on a device, installed or not.

    `reason` is None if the implementation supports the change.
    """

    def reason(implementation: Implementation, traits: LayerTraits, device: Device) -> str | None:
        return ineligibility_reason(implementation, traits, device, has_package=lambda _: True)

    for device in DEVICES:
        runners = [
            implementation
            for implementation in PLAIN
            if reason(implementation, LayerTraits(), device) is None
        ]
        for name, traits, options in changes():
            for implementation in runners:
                why = reason(replace(implementation, options=options), traits, device)
                yield {
                    "change": name,
                    "implementation": str(implementation),
                    "device": device,
                    "reason": why,
                }


def catalogue_document(catalogue: Catalogue) -> Document:
    """Return settings and metrics, what runs here, and the needs of each kernel."""
    is_full = catalogue.workloads == registry.BUILT_IN
    hint = "What each kernel supports: rnnsweep workloads --full"
    if is_full:
        hint = "Your own workload: package.module:function (see help(rnnsweep.Context) in Python)"
    tasks = [(workload.name, workload.summary) for workload in catalogue.workloads]
    options = [(f"+{name}", text) for name, text in all_options().items()]
    sections = [
        Section("", tables=(Table(("workload", "task"), tuple(tasks)),), paragraphs=(hint,)),
        *map(_workload, catalogue.workloads),
        *(_support_here(catalogue, hardware) for hardware in catalogue.hardware),
        _definitions("kernels", "kernel", KERNELS.items()),
        _definitions("options", "option", options),
    ]
    if is_full:
        sections.append(_support_everywhere())
    return Document("Workloads", tuple(sections))


def overview_document(catalogue: Catalogue) -> Document:
    """Return a line for each workload, and the implementations that run all of them here."""
    tasks = tuple((workload.name, workload.summary) for workload in catalogue.workloads)
    own = "Your own workload: package.module:function (see help(rnnsweep.Context) in Python)"
    section = Section(
        "",
        tables=(Table(("workload", "task"), tasks),),
        paragraphs=(own, *(_runs_here(catalogue, hardware) for hardware in catalogue.hardware)),
    )
    first = catalogue.workloads[0].name
    more = (
        f"One workload's settings, metrics, and what runs: rnnsweep workloads {first}; all of them,"
        " and what each kernel supports: rnnsweep workloads --full"
    )
    return Document("Workloads", (section, Section("More", paragraphs=(more,))))


def _runs_here(catalogue: Catalogue, hardware: HardwareClass) -> str:
    """Write which implementations run some workload on a class of hardware."""
    runs = [
        str(plain)
        for plain in PLAIN
        if any(catalogue.reason(plain, task, hardware) is None for task in catalogue.workloads)
    ]
    return f"On {hardware.name}: {', '.join(runs) or 'no implementation runs'}"


def _definitions(
    title: str, kind: str, texts: Iterable[tuple[str, str]], meaning: str = "meaning"
) -> Section:
    return Section(title, tables=(Table((kind, meaning), tuple(texts)),))


def _workload(workload: Workload) -> Section:
    assert workload.settings_model is not None  # the built-in ones have settings
    fixed, meanings = ", ".join(workload.data_settings), workload.settings_model.meanings()
    columns: list[Column[tuple[str, FieldInfo]]] = [
        Column("setting", lambda item: item[0]),
        Column("meaning", lambda item: _meaning(meanings[item[0]], item[1])),
        Column("default", lambda item: item[1].default, show=str, numeric=False),
    ]
    but = f", except {fixed}, which select the data" if fixed else ""
    return Section(
        workload.name,
        tables=(make_table(columns, workload.settings_model.model_fields.items()),),
        paragraphs=(
            f"A search space may have all settings{but}.",
            f"Metrics: {', '.join(workload.metrics)}.",
            f"Metrics of arms timed in slices: {', '.join(sliced_metrics('train'))}.",
            f"Metrics of predictions in slices: {', '.join(sliced_metrics('predict'))}.",
        ),
    )


def _choices(setting: FieldInfo) -> tuple[str, ...]:
    """Return the values of a setting that takes one of a few texts; nothing for any other."""
    values = typing.get_args(setting.annotation)
    return values if all(isinstance(value, str) for value in values) else ()


def _meaning(text: str, setting: FieldInfo) -> str:
    """Return a text such as `the recurrent cell: lstm, gru, rnn_tanh or rnn_relu`."""
    values = _choices(setting)
    if all(value in text for value in values):
        return text
    return f"{text}: {', '.join(values[:-1])} or {values[-1]}"


def _support_here(catalogue: Catalogue, hardware: HardwareClass) -> Section:
    settings = ", ".join(f"{name} {value}" for name, value in catalogue.settings.items())
    verdicts = ((str(plain), _verdict(catalogue, plain, hardware)) for plain in PLAIN)
    title = f"on {hardware.name}, with {settings or 'default settings'}"
    return _definitions(title, "implementation", verdicts, "support")


def _verdict(catalogue: Catalogue, plain: Implementation, hardware: HardwareClass) -> str:
    """Return `runs, also +xla`, or a reason; with the names of the workloads if they differ."""
    texts: dict[str, list[str]] = {}
    for task in catalogue.workloads:
        options = (
            f"+{option}"
            for option in all_options()
            if catalogue.reason(replace(plain, options=(option,)), task, hardware) is None
        )
        reason = catalogue.reason(plain, task, hardware)
        texts.setdefault(reason or " ".join(["runs, also", *options]), []).append(task.name)
    if len(texts) == 1:
        return next(iter(texts))
    return "; ".join(f"{', '.join(names)}: {text}" for text, names in texts.items())


def _support_everywhere() -> Section:
    """Return one table per device, and the reasons below them."""
    cells = {(need["device"], need["implementation"], need["change"]): need for need in needs()}
    reasons = dict.fromkeys(why for need in cells.values() if (why := need["reason"]))
    numbers = {reason: str(number) for number, reason in enumerate(reasons, 1)}

    def column(device: Device, runner: str) -> Column[str]:
        def cell(change: str) -> str:
            reason = cells[device, runner, change]["reason"]
            return f"no {numbers[reason]}" if reason else "yes"

        return Column(runner, cell, numeric=True)

    tables = []
    for device, name in DEVICES.items():
        runners = dict.fromkeys(str(runner) for place, runner, _ in cells if place == device)
        columns: list[Column[str]] = [Column(f"on {name}", str)]
        columns += [column(device, runner) for runner in runners]
        tables.append(make_table(columns, [change for change, *_ in changes()]))
    reason_rows = tuple((number, reason) for reason, number in numbers.items())
    return Section(
        "support by each kernel, one change at a time",
        tables=(*tables, Table(("no", "reason"), reason_rows)),
    )


def catalogue_json(catalogue: Catalogue) -> dict[str, Any]:
    """Return the catalogue as one versioned object."""
    return {
        **CATALOGUE.head(),
        "hardware": [hardware.name for hardware in catalogue.hardware],
        "asked": dict(catalogue.settings),
        "workloads": [_workload_json(workload, catalogue) for workload in catalogue.workloads],
        "needs": list(needs()),
        "backends": {name: backend.install for name, backend in backends().items()},
        "kernels": dict(KERNELS),
        "options": dict(all_options()),
    }


def _workload_json(workload: Workload, catalogue: Catalogue) -> dict[str, Any]:
    assert workload.settings_model is not None
    meanings = workload.settings_model.meanings()
    return {
        "name": workload.name,
        "summary": workload.summary,
        "settings": [
            {
                "name": name,
                "default": setting.default,
                "description": meanings[name],
                "choices": list(_choices(setting)),
                "searchable": name not in workload.data_settings,
            }
            for name, setting in workload.settings_model.model_fields.items()
        ],
        "metrics": list(workload.metrics),
        "timing_metrics": list(sliced_metrics("train")),
        "prediction_metrics": list(sliced_metrics("predict")),
        "implementations": [
            {
                "implementation": str(implementation),
                "hardware": hardware.name,
                "reason": catalogue.reason(implementation, workload, hardware),
            }
            for plain in PLAIN
            for implementation in (plain, *(replace(plain, options=(o,)) for o in all_options()))
            for hardware in catalogue.hardware
        ],
    }
