"""Checks of a list of configs: it excludes a sampler, and its configs have the same parameters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from orchestrator.core.trial import Config
from orchestrator.spec.errors import Finding, Path, nearest, shown

PATH: Path = ("search", "configs")


def check_exclusive(search: Mapping[str, Any]) -> Iterator[Finding]:
    """Report a sampler or a space together with a list, and the sampler `list` without one."""
    configs, sampler = search.get("configs"), search.get("sampler")
    if not isinstance(configs, list):
        if sampler == "list":
            hint = "list each config, such as - {units: 64}, or name a sampler that suggests them"
            yield Finding(PATH, "a list of configs, for sampler list", shown(configs), hint)
        return
    if "sampler" in search and sampler != "list":
        hint = "remove the sampler, or give the number of configs that it is to suggest"
        expected = "list, or no sampler, with a list of configs"
        yield Finding(("search", "sampler"), expected, shown(sampler), hint)
    if search.get("space", {}) != {}:
        hint = "values that all configs share belong in settings"
        received = shown(search["space"])
        yield Finding(("search", "space"), "no space with a list of configs", received, hint)


def check_configs(configs: Mapping[int, Config]) -> Iterator[Finding]:
    """Report configs with other parameters than the first one, and configs listed twice.

    Args:
        configs: the valid ones, by their place in the list.
    """
    if 0 not in configs:
        return  # the first config is invalid, and reported as such
    names = list(configs[0])
    for index, config in configs.items():
        missing = [name for name in names if name not in config]
        expected = f"the parameters of search.configs[0] ({', '.join(names) or 'none'})"
        for name in config:
            if name not in names:
                near = nearest(name, missing)
                missing = [other for other in missing if repr(other) not in near]
                yield Finding((*PATH, index, name), expected, f"the parameter {name!r}", near)
        if missing:
            hint = "each config gives every parameter, its default included"
            yield Finding((*PATH, index), expected, f"no {' and no '.join(missing)}", hint)
    seen = dict[object, int]()
    for index, config in configs.items():
        first = seen.setdefault(_comparable(config), index)
        if first != index:
            yield Finding((*PATH, index), "each config once", f"search.configs[{first}] again")


def _comparable(config: Config) -> object:
    """Return a key that is equal for equal configs: 1 is 1.0, and true is not 1."""
    return frozenset((name, isinstance(value, bool), value) for name, value in config.items())
