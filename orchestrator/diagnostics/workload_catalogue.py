"""The workloads with their settings, and what each kernel supports.

`make docs` writes them into `docs/workloads.md`.
"""

import typing
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from pydantic.fields import FieldInfo

from orchestrator.report.document import Column, Document, Section, Table, make_table
from workloads import registry
from workloads.backends.registry import all_options, backends
from workloads.eligibility import ineligibility_reason
from workloads.implementations import KERNELS, Implementation
from workloads.layer_traits import LayerTraits
from workloads.metrics import sliced_metrics
from workloads.protocol import Device
from workloads.registry import Workload

DEVICES: Mapping[Device, str] = {"gpu": "an NVIDIA GPU", "cpu": "a CPU"}

PLAIN = [Implementation(backend, kernel) for backend in backends() for kernel in KERNELS]
"""Every backend with every kernel, without options."""


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


def catalogue_document() -> Document:
    """Return the workloads with their settings and metrics, and what each kernel supports."""
    tasks = tuple((workload.name, workload.summary) for workload in registry.BUILT_IN)
    own = "Your own workload: package.module:function (see help(rnnsweep.Context) in Python)"
    options = [(f"+{name}", text) for name, text in all_options().items()]
    sections = (
        Section("", tables=(Table(("workload", "task"), tasks),), notes=(own,)),
        *map(_workload, registry.BUILT_IN),
        _definitions("kernels", "kernel", KERNELS.items()),
        _definitions("options", "option", options),
        _support_everywhere(),
    )
    return Document("Workloads", sections)


def _definitions(title: str, kind: str, texts: Iterable[tuple[str, str]]) -> Section:
    return Section(title, tables=(Table((kind, "meaning"), tuple(texts)),))


def _workload(workload: Workload) -> Section:
    assert workload.settings_model is not None  # the built-in ones have settings
    fixed, meanings = ", ".join(workload.data_settings), workload.settings_model.meanings()
    columns: list[Column[tuple[str, FieldInfo]]] = [
        Column("setting", lambda item: item[0]),
        Column("meaning", lambda item: _meaning(meanings[item[0]], item[1])),
        Column("default", lambda item: item[1].default, show=str, numeric=False),
    ]
    but = f" but {fixed}, which select the data" if fixed else ""
    return Section(
        workload.name,
        tables=(make_table(columns, workload.settings_model.model_fields.items()),),
        notes=(
            f"A sweep can search all settings{but}.",
            f"Metrics: {', '.join(workload.metrics)}.",
            f"Metrics with measure: timing: {', '.join(sliced_metrics('train'))}.",
            f"Metrics of predictions: {', '.join(sliced_metrics('predict'))}.",
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
        runners = dict.fromkeys(str(runner) for on, runner, _ in cells if on == device)
        columns: list[Column[str]] = [Column(f"on {name}", str)]
        columns += [column(device, runner) for runner in runners]
        tables.append(make_table(columns, [change for change, *_ in changes()]))
    reason_rows = tuple((number, reason) for reason, number in numbers.items())
    return Section(
        "support by each kernel, one change at a time",
        tables=(*tables, Table(("no", "reason"), reason_rows)),
    )
