"""The catalogue as text: settings and metrics, what runs here, and the needs of each kernel."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

from pydantic.fields import FieldInfo

from orchestrator.core.text import folded
from orchestrator.diagnostics.catalogue.kernel_support import DEVICES, Need, needs
from orchestrator.diagnostics.catalogue.listing import (
    Catalogue,
    choices,
    plain_implementations,
    with_options,
)
from orchestrator.hardware import HardwareClass
from workloads.implementations import KERNELS, OPTIONS, Implementation
from workloads.protocol import Device
from workloads.registry import TIMING_METRICS, Workload

_DEVICES: Mapping[Device, str] = {"gpu": "an NVIDIA GPU", "cpu": "a CPU"}
_GAP = 2


def as_text(catalogue: Catalogue, width: int = 100) -> str:
    """Return the catalogue in lines of at most `width` characters (at least 60)."""
    lines: list[str] = []
    for workload in catalogue.workloads:
        lines += [*_workload(workload, width), ""]
    for hardware in catalogue.hardware:
        lines += [*_what_runs(catalogue, hardware, width), ""]
    lines += ["kernels", *_definitions(KERNELS, width), ""]
    lines += ["options", *_definitions({f"+{k}": text for k, text in OPTIONS.items()}, width), ""]
    hint = "What each kernel supports: rnnsweep workloads, without a name"
    if catalogue.is_full:
        lines += [*_needs(width), ""]
        hint = "Your own workload: package.module:function (see help(rnnsweep.Context) in Python)"
    lines += folded(hint, width, rest="  ")
    return "\n".join(lines) + "\n"


def _workload(workload: Workload, width: int) -> Iterator[str]:
    model = workload.settings_model
    assert model is not None  # the built-in ones have settings
    fixed = ", ".join(workload.data_settings)
    but = f", except {fixed}, which select the data" if fixed else ""
    yield from folded(f"{workload.name}: {workload.summary}", width, rest="  ")
    yield ""
    yield from folded(f"settings (a search space may have all{but})", width, "  ", "    ")
    settings = {name: _setting(field) for name, field in model.model_fields.items()}
    yield from _definitions(settings, width, "    ")
    yield ""
    yield from folded(f"metrics  {', '.join(workload.metrics)}", width, "  ", "    ")
    yield from folded(
        f"metrics of arms timed in slices  {', '.join(TIMING_METRICS)}", width, "  ", "    "
    )


def _setting(field: FieldInfo) -> str:
    """Return a text such as `the recurrent cell: lstm, gru, rnn_tanh or rnn_relu [lstm]`."""
    text, values = field.description or "", choices(field)
    if not all(value in text for value in values):
        text += f": {', '.join(values[:-1])} or {values[-1]}"
    return text if field.default is None else f"{text} [{field.default}]"


def _what_runs(catalogue: Catalogue, hardware: HardwareClass, width: int) -> Iterator[str]:
    asked = ", ".join(f"{name} {value}" for name, value in catalogue.settings.items())
    yield from folded(f"on {hardware.name}, with {asked or 'default settings'}", width, rest="  ")
    verdicts = {
        str(plain): _verdict(catalogue, plain, hardware) for plain in plain_implementations()
    }
    yield from _definitions(verdicts, width)


def _verdict(catalogue: Catalogue, plain: Implementation, hardware: HardwareClass) -> str:
    """Return `runs, also +xla`, a reason, or both if workloads differ."""
    by_reason: dict[str | None, list[str]] = {}
    for name, reason in catalogue.reasons(plain, hardware).items():
        by_reason.setdefault(reason, []).append(name)
    able = by_reason.pop(None, [])
    parts = [
        f"not {', '.join(names)}: {reason}" if able or len(by_reason) > 1 else str(reason)
        for reason, names in by_reason.items()
    ]
    if able:
        also = [
            f"+{option.options[0]}"
            for option in with_options(plain)
            if all(catalogue.reasons(option, hardware)[name] is None for name in able)
        ]
        runs = f"runs {', '.join(able)}" if by_reason else "runs"
        parts.insert(0, f"{runs}, also {' '.join(also)}" if also else runs)
    return "; ".join(parts)


def _needs(width: int) -> Iterator[str]:
    """Yield one table per device, and the reasons below them."""
    yield from folded(
        "support by each kernel, one change at a time (no 3: not supported, for reason 3 below)",
        width,
        rest="  ",
    )
    rows = list(needs())
    numbers: dict[str, int] = {}
    for need in rows:
        if need.reason is not None:
            numbers.setdefault(need.reason, len(numbers) + 1)
    for device in DEVICES:
        yield ""
        yield from _matrix(device, [need for need in rows if need.device == device], numbers, width)
    yield ""
    reasons = {f"{number:>2}": reason for reason, number in numbers.items()}
    yield from _definitions(reasons, width)


def _matrix(
    device: Device, device_needs: Sequence[Need], numbers: Mapping[str, int], width: int
) -> Iterator[str]:
    """Yield changes by implementations, under a head of two lines; in parts if it is too wide."""
    head = f"on {_DEVICES[device]}"
    changes = [f"  {change}" for change in dict.fromkeys(need.change for need in device_needs)]
    label = max(map(len, (head, *changes))) + _GAP
    columns = dict.fromkeys(need.implementation for need in device_needs)
    cells: dict[Implementation, list[str]] = {column: [] for column in columns}
    for need in device_needs:
        cells[need.implementation].append(f"no {numbers[need.reason]}" if need.reason else "yes")
    for part in _fitting(list(columns), width - label):
        rows = [head.ljust(label), " " * label, *(change.ljust(label) for change in changes)]
        before = ""
        for implementation, wide in part.items():
            backend = implementation.backend if implementation.backend != before else ""
            column = [backend, implementation.kernel, *cells[implementation]]
            rows = [row + text.ljust(wide) for row, text in zip(rows, column, strict=True)]
            before = implementation.backend
        yield from (row.rstrip() for row in rows)


def _fitting(columns: Sequence[Implementation], room: int) -> Iterator[dict[Implementation, int]]:
    """Yield the columns with their widths, in parts that fit without splitting a backend."""
    part: dict[Implementation, int] = {}
    for backend, group in groupby(columns, lambda column: column.backend):
        more = {column: max(len(column.kernel), len("no 10")) + _GAP for column in group}
        last = next(reversed(more))
        more[last] += max(0, len(backend) + _GAP - sum(more.values()))
        if part and sum(part.values()) + sum(more.values()) - _GAP > room:
            yield part
            part = {}
        part |= more
    yield part


def _definitions(texts: Mapping[str, str], width: int, indent: str = "  ") -> Iterator[str]:
    """Yield names and their texts in two columns, the second one folded."""
    column = max(map(len, texts), default=0) + _GAP
    for name, text in texts.items():
        yield from folded(text, width, indent + name.ljust(column), " " * (len(indent) + column))
