"""Whether what a sweep is to decide fits the rest of its spec: slices, blocks, published rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from orchestrator.spec.errors import Finding, Path, nearest, shown
from orchestrator.spec.hardware import HardwareEntry
from orchestrator.spec.space import AGGREGATES, Search
from orchestrator.spec.valid_parts import Draft
from orchestrator.spec.workload_checks import COST_METRICS, OUTSIDE_METRICS
from workloads import registry

TIMING_METRICS = (*registry.TIMING_METRICS, "cost_usd", *OUTSIDE_METRICS)
"""What a trial may have that is timed in slices."""

_PUBLISHED_ALSO = ("fit_s", "epoch_s")
"""How others tell the time of a whole training, and of one epoch, with its validation."""


def undecided(draft: Draft, *, sound: bool) -> Iterator[Finding]:
    """What a sweep could never decide, or never show.

    Args:
        draft: the parts of the spec that are valid by themselves.
        sound: whether the space is, as a whole.
    """
    yield from _slices(draft)
    yield from _objectives(draft)
    yield from _blocks(draft, sound=sound)
    yield from _published(draft)


def _slices(draft: Draft) -> Iterator[Finding]:
    """How slices are to be, where nothing is timed in slices."""
    timed = any(entry.measure == "timing" for entry in draft.entries.values())
    if draft.measure is None or timed:
        return
    for name in sorted(draft.measure.model_fields_set - {"mode"}):
        hint = "say mode: timing, or measure: timing in an entry of arms.hardware"
        yield Finding(("measure", name), "arms that are timed in slices", "none", hint)


def _objectives(draft: Draft) -> Iterator[Finding]:
    """Objectives on what only a whole training has, over arms that are only timed."""
    for name, objective in draft.objectives.items():
        read = _entries_read(draft, objective.over)
        if name in TIMING_METRICS or not read:
            continue
        if all(entry.measure == "timing" for entry in read):
            path: Path = ("search", "objectives", name)
            hint = "measure: full on some of arms.hardware, or an objective such as step_ms"
            expected = "an arm that is trained whole"
            yield Finding(path, expected, "only arms that are timed in slices", hint)


def _entries_read(draft: Draft, over: str) -> list[HardwareEntry]:
    """The entries whose arms an objective reads, as far as their names tell."""
    entries = list(draft.entries.values())
    _, on, hardware = over.partition(" on ")
    if over in AGGREGATES or not on:
        return entries
    wanted = hardware.lower()
    return [entry for entry in entries if (entry.selector or "").lower() == wanted]


def _blocks(draft: Draft, *, sound: bool) -> Iterator[Finding]:
    """A number of configs, or a list of them, beside blocks that come until it is enough."""
    if not draft.has_blocks:
        return
    search = draft.search or {}
    if search.get("configs") is not None:
        is_list = isinstance(search["configs"], list)
        hint = (
            "a list says which blocks there are: remove blocks, or let a sampler suggest them"
            if is_list
            else "remove it (--set search.configs=null): blocks.at_most bounds them"
        )
        expected = "no configs beside blocks, which says how many there are"
        yield Finding(("search", "configs"), expected, shown(search["configs"]), hint)
        return
    if draft.blocks is None or draft.listed is not None or not sound or not draft.space:
        return
    size = Search.model_construct(space=draft.space).size()
    if size is not None and size < draft.blocks.at_least:
        expected = f"a space of at least {draft.blocks.at_least} configs (blocks.at_least)"
        yield Finding(("search", "space"), expected, f"{size}, each of which is one block")


def _published(draft: Draft) -> Iterator[Finding]:
    """Metrics of published rows that no row of ours could stand beside."""
    if not draft.is_builtin:
        return
    of_workloads = (name for each in registry.built_in_workloads() for name in each.metrics)
    known = dict.fromkeys((*of_workloads, *TIMING_METRICS, *COST_METRICS, *_PUBLISHED_ALSO))
    for index, metrics in draft.published.items():
        yield from _unknown(metrics, ("published", index, "metrics"), known)


def _unknown(
    metrics: Mapping[str, Any], path: Path, known: Mapping[str, None]
) -> Iterator[Finding]:
    for name in metrics:
        if name not in known:
            hint = nearest(name, known) or "rnnsweep workloads tells them; a note may say the rest"
            yield Finding((*path, name), "a metric of ours, in our unit", repr(name), hint)
