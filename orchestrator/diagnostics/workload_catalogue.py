"""The workloads with their settings, and what each kernel cannot run.

`make docs` writes them into `docs/workloads.md`.
"""

import itertools
import typing
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TypeAlias

from pydantic.fields import FieldInfo

from orchestrator.report.document import Column, Document, Section, Table, make_table
from workloads import registry
from workloads.backends.registry import all_options, backends
from workloads.eligibility import ineligibility_reason
from workloads.implementations import KERNELS, Implementation
from workloads.layer_traits import LayerTraits
from workloads.protocol import Device

DEVICES: Mapping[Device, str] = {"gpu": "an NVIDIA GPU", "cpu": "a CPU"}

Place: TypeAlias = tuple[Implementation, Device]
"""An implementation without options, and a device."""

SettingDefaults: TypeAlias = tuple[tuple[str, str], Mapping[str, object]]
"""The name and the meaning of a setting, and its default in each workload that has it."""

_CHANGES: Mapping[str, LayerTraits] = {
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
    """Yield names of changes with the layers and the options: each trait, each option."""
    yield from ((name, traits, ()) for name, traits in _CHANGES.items())
    yield from ((f"+{option}", LayerTraits(), (option,)) for option in all_options())


def catalogue_document() -> Document:
    """Return the workloads with their settings, the kernels, the options, and what cannot run."""
    tasks = tuple((workload.name, workload.summary) for workload in registry.BUILT_IN)
    options = [(f"+{name}", text) for name, text in all_options().items()]
    sections = (
        Section("", tables=(Table(("workload", "task"), tasks),)),
        *_settings(),
        _definitions("Kernels", "kernel", KERNELS.items()),
        _definitions("Options", "option", options),
        Section("What cannot run", tables=(_limits(),)),
    )
    return Document("Workloads", sections)


def _definitions(title: str, kind: str, texts: Iterable[tuple[str, str]]) -> Section:
    return Section(title, tables=(Table((kind, "meaning"), tuple(texts)),))


def _settings() -> Iterator[Section]:
    """Yield the settings that several workloads have, then the further ones of each workload."""
    settings = defaultdict[tuple[str, str], dict[str, object]](dict)
    for workload in registry.BUILT_IN:
        assert workload.settings_model is not None  # the built-in ones have settings
        meanings = workload.settings_model.meanings()
        for name, setting in workload.settings_model.model_fields.items():
            settings[name, _meaning(meanings[name], setting)][workload.name] = setting.default
    shared = [item for item in settings.items() if len(item[1]) > 1]
    defaults = [_default_in(workload.name, title=workload.name) for workload in registry.BUILT_IN]
    table = make_table([*_NAME_AND_MEANING, *defaults], shared)
    yield Section("Settings of several workloads", tables=(table,))
    for workload in registry.BUILT_IN:
        own = [item for item in settings.items() if item[1].keys() == {workload.name}]
        columns = [*_NAME_AND_MEANING, _default_in(workload.name, title="default")]
        yield Section(f"Further settings of {workload.name}", tables=(make_table(columns, own),))


_NAME_AND_MEANING: tuple[Column[SettingDefaults], ...] = (
    Column("setting", lambda item: item[0][0]),
    Column("meaning", lambda item: item[0][1]),
)


def _default_in(workload: str, title: str) -> Column[SettingDefaults]:
    """Return a column of defaults, which is empty for a setting that the workload lacks."""
    return Column(title, lambda item: item[1].get(workload, ""), show=str, numeric=False)


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


def _limits() -> Table:
    """Return a table with a row for each reason why some implementations cannot run something."""
    places = [
        (Implementation(backend, kernel), device)
        for backend, kernel, device in itertools.product(backends(), KERNELS, DEVICES)
    ]
    able = [place for place in places if _reason(place, LayerTraits()) is None]
    changes_by_reason = defaultdict[str, list[str]](list)
    places_by_reason = defaultdict[str, list[Place]](list)

    def add(tried: Iterable[Place], change: str, traits: LayerTraits, *options: str) -> None:
        for place in tried:
            if reason := _reason(place, traits, options):
                changes_by_reason[reason].append(change)
                places_by_reason[reason].append(place)

    add(places, "any layer", LayerTraits())
    for change, traits, options in changes():
        add(able, change, traits, *options)
    rows = [
        (_places_text(found, able), "; ".join(dict.fromkeys(changes_by_reason[reason])), reason)
        for reason, found in places_by_reason.items()
    ]
    return Table(("implementations", "cannot run", "because"), tuple(rows))


def _reason(place: Place, traits: LayerTraits, options: tuple[str, ...] = ()) -> str | None:
    """Return why the layers cannot run there, as if all packages were installed."""
    implementation, device = place
    asked = replace(implementation, options=options)
    return ineligibility_reason(asked, traits, device, has_package=lambda _: True)


def _places_text(found: Collection[Place], able: Collection[Place]) -> str:
    """Return a text such as `A, B/cudnn on a CPU`: the backend A alone stands for all its kernels.

    `able` are the places that run a plain layer. The text has no device if the implementations have
    no other device.
    """
    devices = dict.fromkeys(device for _, device in found)
    names = list[str]()
    for backend in backends():
        chosen = dict.fromkeys(str(item) for item, _ in found if item.backend == backend)
        possible = {str(item) for item, on in able if item.backend == backend and on in devices}
        names += [backend] if chosen.keys() == possible else list(chosen)
    implementations = {item for item, _ in found}
    elsewhere = [on for item, on in able if item in implementations and on not in devices]
    suffix = f" on {' and '.join(DEVICES[device] for device in devices)}" if elsewhere else ""
    return f"{', '.join(names)}{suffix}"
