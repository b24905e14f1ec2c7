"""Checks that slices, blocks and published rows fit the rest of a spec."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from orchestrator.core.names import split_arm_text
from orchestrator.spec.errors import Finding, Path, nearest, shown
from orchestrator.spec.hardware import HardwareEntry
from orchestrator.spec.space import AGGREGATES, Search
from orchestrator.spec.valid_parts import ValidParts
from orchestrator.spec.workload_checks import COST_METRICS, TELEMETRY_OBJECTIVES
from workloads import registry

TIMING_METRICS = (*registry.TIMING_METRICS, "cost_usd", *TELEMETRY_OBJECTIVES)
"""Metrics of a trial that is timed in slices."""

_PUBLISHED_ALSO = ("fit_s", "epoch_s")
"""Metrics of published rows only: times of a whole training, and of an epoch, with validation."""


def check_precision(parts: ValidParts, *, sound: bool) -> Iterator[Finding]:
    """Report keys that the sweep could never satisfy or show.

    Args:
        parts: the parts of the spec that are valid by themselves.
        sound: True if the space is valid as a whole.
    """
    yield from _slices(parts)
    yield from _objectives(parts)
    yield from _blocks(parts, sound=sound)
    yield from _published(parts)


def _slices(parts: ValidParts) -> Iterator[Finding]:
    """Report options of slices if nothing is timed in slices."""
    timed = any(entry.measure == "timing" for entry in parts.entries.values())
    if parts.measure is None or timed:
        return
    for name in sorted(parts.measure.model_fields_set - {"mode"}):
        hint = "add mode: timing, or measure: timing in an entry of arms.hardware"
        yield Finding(("measure", name), "arms that are timed in slices", "none", hint)


def _objectives(parts: ValidParts) -> Iterator[Finding]:
    """Report objectives that need a whole training, over arms that are only timed."""
    for name, objective in parts.objectives.items():
        entries = _entries_read(parts, objective.over)
        if name in TIMING_METRICS or not entries:
            continue
        if all(entry.measure == "timing" for entry in entries):
            path: Path = ("search", "objectives", name)
            hint = "measure: full on some of arms.hardware, or an objective such as step_ms"
            expected = "an arm that is trained whole"
            yield Finding(path, expected, "only arms that are timed in slices", hint)


def _entries_read(parts: ValidParts, over: str) -> list[HardwareEntry]:
    """Return the entries whose arms an objective reads, as far as their names show."""
    entries = list(parts.entries.values())
    _, hardware = split_arm_text(over)
    if over in AGGREGATES or hardware is None:
        return entries
    wanted = hardware.lower()
    return [entry for entry in entries if (entry.selector or "").lower() == wanted]


def _blocks(parts: ValidParts, *, sound: bool) -> Iterator[Finding]:
    """Report configs together with automatic blocks, and a space that is too small for them."""
    if not parts.has_blocks:
        return
    search = parts.search or {}
    if search.get("configs") is not None:
        is_list = isinstance(search["configs"], list)
        hint = (
            "a list decides the blocks: remove blocks, or let a sampler suggest them"
            if is_list
            else "remove it (--set search.configs=null): blocks.at_most bounds them"
        )
        expected = "no configs with blocks, which decides their number"
        yield Finding(("search", "configs"), expected, shown(search["configs"]), hint)
        return
    if parts.blocks is None or parts.listed is not None or not sound or not parts.space:
        return
    size = Search.model_construct(space=parts.space).size()
    if size is not None and size < parts.blocks.at_least:
        expected = f"a space of at least {parts.blocks.at_least} configs (blocks.at_least)"
        yield Finding(("search", "space"), expected, f"{size}, each of which is one block")


def _published(parts: ValidParts) -> Iterator[Finding]:
    """Report metrics of published rows that our trials never have."""
    if not parts.is_builtin:
        return
    of_workloads = (name for workload in registry.built_in_workloads() for name in workload.metrics)
    valid = dict.fromkeys((*of_workloads, *TIMING_METRICS, *COST_METRICS, *_PUBLISHED_ALSO))
    for index, metrics in parts.published.items():
        yield from _unknown(metrics, ("published", index, "metrics"), valid)


def _unknown(
    metrics: Mapping[str, Any], path: Path, valid: Mapping[str, None]
) -> Iterator[Finding]:
    for name in metrics:
        if name not in valid:
            hint = nearest(name, valid) or "rnnsweep workloads lists them; put others into a note"
            yield Finding((*path, name), "a metric of ours, in our unit", repr(name), hint)
