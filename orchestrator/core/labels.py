"""Ray's label selectors, read as Ray reads them: the nodes that a spec's `labels` match.

A condition of a key is `value`, `!value`, `in(a, b)` or `!in(a, b)`; no key meets negated ones.
"""

import re
from collections.abc import Mapping

# ray/_private/label_utils.py, Ray 2.60: LABEL_REGEX, LABEL_PREFIX_REGEX, LABEL_SELECTOR_REGEX.
_WORD = r"[a-zA-Z0-9](?:[a-zA-Z0-9_.-]{0,61}[a-zA-Z0-9])?"
_KEY = re.compile(rf"(?:(?=[^/]{{1,253}}/){_WORD}(?:\.{_WORD})*/)?{_WORD}")
_LIST = rf"{_WORD}(?:, ?{_WORD})*"
_CONDITION = re.compile(rf"(?P<no>!?)(?:in\((?P<several>{_LIST})\)|(?P<one>{_WORD}))")

KEY_SHAPE = "a label's key, such as ray.io/accelerator-type or market-type"
CONDITION_SHAPE = "a label selector: value, !value, in(one, other) or !in(one, other)"


def is_key(text: str) -> bool:
    """Return whether Ray accepts this as a label's key."""
    return _KEY.fullmatch(text) is not None


def is_condition(text: str) -> bool:
    """Return whether Ray accepts this as a condition on a label."""
    return _CONDITION.fullmatch(text) is not None


def carries(labels: Mapping[str, str], selector: Mapping[str, str]) -> bool:
    """Return whether a node with these labels meets every condition of the selector."""
    return all(_meets(labels.get(key), condition) for key, condition in selector.items())


def _meets(value: str | None, condition: str) -> bool:
    match = _CONDITION.fullmatch(condition)
    if match is None:
        raise ValueError(f"expected {CONDITION_SHAPE}; received {condition!r}")
    values = match["several"].split(",") if match["several"] else [match["one"]]
    return (value in {text.strip() for text in values}) is not bool(match["no"])


def shown(selector: Mapping[str, str]) -> str:
    """Return `market-type=spot, ray.io/accelerator-type=in(T4, L4)`."""
    return ", ".join(f"{key}={condition}" for key, condition in selector.items())
