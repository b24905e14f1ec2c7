"""Sample specs: the one place that makes the text of a spec, or a checked one, for tests.

spec(configs=5, hardware=["cpu", "gpu"])        # three configs of image_rows on cpu, changed
spec_text(OWN, measure="timing")                # of a user's own workload; as text
spec(sampler=None, overrides=["repeats=2"])     # without a key; with --set
"""

from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from orchestrator.spec import SweepSpec, parse_spec

BUILT_IN: Mapping[str, Any] = {
    "name": "mine",
    "workload": "image_rows",
    "sampler": "random",
    "configs": 3,
    "space": {"units": [4, 8, 16]},
    "implementations": ["tensorflow/portable"],
    "hardware": ["cpu"],
}
OWN: Mapping[str, Any] = {
    **BUILT_IN,
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


def spec_data(base: Mapping[str, Any] = BUILT_IN, /, **changes: Any) -> dict[str, Any]:
    data: dict[str, Any] = {}
    for key, value in {**base, **changes}.items():
        if value is not None:
            section = _SECTIONS.get(key)
            (data.setdefault(section, {}) if section else data)[key] = value
    return data


def spec_text(base: Mapping[str, Any] = BUILT_IN, /, **changes: Any) -> str:
    """Return a spec as YAML, one line for each of its values (see `spec_data`)."""
    return str(yaml.safe_dump(spec_data(base, **changes), sort_keys=False, width=10_000))


def spec(
    base: Mapping[str, Any] = BUILT_IN, /, *, overrides: Sequence[str] = (), **changes: Any
) -> SweepSpec:
    """Return a checked spec (see `spec_data`); `overrides` are those of `--set`."""
    return parse_spec(spec_text(base, **changes), source="spec", overrides=overrides)
