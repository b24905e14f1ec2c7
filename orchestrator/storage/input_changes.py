"""Whether two starts have the inputs of one sweep: only then are their trials comparable."""

import json
from typing import Any

from orchestrator.core.trial import SweepIdentity, canonical
from orchestrator.sampling import configs_from

_INPUTS = ("workload", "settings", "search", "seed", "data_digest", "timed_work")


def input_changes(before: SweepIdentity, now: SweepIdentity) -> list[str]:
    """Return a line for each input that differs: `settings.epochs: 5 -> 6`.

    The code of a user's own workload is compared by `SweepIdentity.code_changes`.
    """
    old, new, missing = _flat(_comparable(before)), _flat(_comparable(now)), "(absent)"
    return [
        f"{key}: {old.get(key, missing)} -> {new.get(key, missing)}"
        for key in sorted({*old, *new})
        if old.get(key, missing) != new.get(key, missing)
    ]


def _comparable(identity: SweepIdentity) -> dict[str, Any]:
    inputs: dict[str, Any] = json.loads(canonical({n: getattr(identity, n) for n in _INPUTS}))
    if configs_from(identity.sampler) == "space":
        # Each point of a grid is a block, which is found again by its config: values may change.
        inputs["search"]["space"] = sorted(identity.search["space"])
    return inputs


def _flat(value: Any, prefix: str = "") -> dict[str, str]:
    """Return the JSON of each leaf by its dotted path."""
    if isinstance(value, dict) and value:
        return {
            path: text
            for key, item in value.items()
            for path, text in _flat(item, f"{prefix}.{key}" if prefix else key).items()
        }
    return {prefix: json.dumps(value)}
