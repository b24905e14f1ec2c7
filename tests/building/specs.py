"""Specs: as data, as YAML and checked.

build_spec(configs=5, hardware=["cpu", "gpu"])         # three configs of image_rows on cpu, changed
build_spec_text(USER_WORKLOAD, measure="timing")       # of a user's own workload; as YAML
build_spec(sampler=None, overrides=["repeats=2"])      # without a key; with --set
"""

from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from orchestrator.spec import SweepSpec, parse_spec

BUILT_IN_WORKLOAD: Mapping[str, Any] = {
    "name": "mine",
    "workload": "image_rows",
    "sampler": "random",
    "configs": 3,
    "space": {"units": [4, 8, 16]},
    "implementations": ["tensorflow/portable"],
    "hardware": ["cpu"],
}
USER_WORKLOAD: Mapping[str, Any] = {
    **BUILT_IN_WORKLOAD,
    "workload": "own.module:run",
    "space": {"layers": [1, 2, 3]},
    "implementations": ["python/a"],
}
_SECTIONS = {
    **dict.fromkeys(
        ("sampler", "pruner", "configs", "space", "objectives", "open_blocks"), "search"
    ),
    **dict.fromkeys(("implementations", "hardware", "variants"), "arms"),
}


def build_spec_data(
    base: Mapping[str, Any] = BUILT_IN_WORKLOAD, /, **changes: Any
) -> dict[str, Any]:
    """Return a spec as data; `changes` replace keys of `base`, None removes one.

    Keys of `search` and `arms` are given without their section.
    """
    data: dict[str, Any] = {}
    for key, value in {**base, **changes}.items():
        if value is not None:
            section = _SECTIONS.get(key)
            (data.setdefault(section, {}) if section else data)[key] = value
    return data


def build_spec_text(base: Mapping[str, Any] = BUILT_IN_WORKLOAD, /, **changes: Any) -> str:
    """Return a spec as YAML, one line for each of its values (see `build_spec_data`)."""
    return str(yaml.safe_dump(build_spec_data(base, **changes), sort_keys=False, width=10_000))


def build_spec(
    base: Mapping[str, Any] = BUILT_IN_WORKLOAD, /, *, overrides: Sequence[str] = (), **changes: Any
) -> SweepSpec:
    """Return a checked spec (see `build_spec_data`); `overrides` are as for `--set`."""
    return parse_spec(build_spec_text(base, **changes), source="spec", overrides=overrides)
