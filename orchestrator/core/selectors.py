"""Selectors of hardware, labels and arms: one set of rules for specs, plans, prices and queries."""

import re
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase

from orchestrator.core.arms import Arm, HardwareRef, HardwareUse
from workloads.backends.registry import parse_known_implementation
from workloads.implementations import Implementation, ImplementationError

ANY_IMPLEMENTATION = "*"  # `* on gpu`: every arm on such hardware

# ray/_private/label_utils.py, Ray 2.60: LABEL_REGEX, LABEL_PREFIX_REGEX, LABEL_SELECTOR_REGEX.
_WORD = r"[a-zA-Z0-9](?:[a-zA-Z0-9_.-]{0,61}[a-zA-Z0-9])?"
_KEY = re.compile(rf"(?:(?=[^/]{{1,253}}/){_WORD}(?:\.{_WORD})*/)?{_WORD}")
_LIST = rf"{_WORD}(?:, ?{_WORD})*"
_CONDITION = re.compile(rf"(?P<no>!?)(?:in\((?P<several>{_LIST})\)|(?P<one>{_WORD}))")

KEY_SHAPE = "a label's key, such as ray.io/accelerator-type or market-type"
CONDITION_SHAPE = "a label selector: value, !value, in(one, other) or !in(one, other)"
"""Shapes of labels, as in Ray; a node without the key meets a negated condition."""


def selects(selector: str, hardware: HardwareRef | HardwareUse) -> bool:
    """Return whether a selector matches a hardware class, or one as an arm uses it.

    A selector is a device (`cpu`, `gpu`), a GPU's own name (`NVIDIA H200`), the text that is
    displayed for the hardware, how an arm uses it (`2 threads`), or a pattern of one of these
    names (`*H200*`). Case is ignored.
    A full text matches that usage only. Devices, GPUs and patterns match every usage.
    """
    hardware_class = hardware if isinstance(hardware, HardwareRef) else hardware.hardware_class
    wanted, text = selector.lower(), str(hardware).lower()
    if isinstance(hardware, HardwareUse) and wanted == str(hardware.usage).lower() != "":
        return True
    gpu = (hardware_class.gpu or "").lower()
    if wanted in ("cpu", "gpu"):
        return wanted == hardware_class.device
    if wanted == text or (gpu and wanted == gpu):
        return True
    names = filter(None, (text, hardware_class.name.lower(), gpu))
    pattern = wanted.replace("[", "[[]")  # brackets belong to a usage (`*[4 threads]`)
    is_pattern = any(mark in wanted for mark in "*?")
    return is_pattern and any(fnmatchcase(name, pattern) for name in names)


def split_arm_text(text: str) -> tuple[str, str | None]:
    """Return the two parts of `NAME on hardware` (see `names_arm`); None without hardware."""
    name, on, hardware = text.partition(" on ")
    return name.strip(), hardware.strip() if on else None


def names_arm(text: str, arm: Arm) -> bool:
    """Return whether `NAME`, or `NAME on hardware`, matches this arm.

    NAME is the arm's implementation, its variant, both (`gru: torch/fused`), or `*`: any.
    """
    if text == str(arm):
        return True
    name, hardware = split_arm_text(text)
    names = (ANY_IMPLEMENTATION, arm.implementation, arm.short_name, arm.variant_name)
    return name in names and (hardware is None or selects(hardware, arm.hardware))


def known_implementation(arm: Arm) -> Implementation | None:
    """Return the arm's implementation; None for a name that a user's own workload defines."""
    try:
        return parse_known_implementation(arm.implementation)
    except ImplementationError:
        return None


def different_models(arms: Iterable[Arm]) -> list[str]:
    """Return the names of the variants among these arms if their settings differ; else nothing."""
    variants = dict.fromkeys(arm.variant for arm in arms)
    unlike = {variant.identity[1] if variant else () for variant in variants}
    return [str(variant or "no variant") for variant in variants] if len(unlike) > 1 else []


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


def labels_text(selector: Mapping[str, str]) -> str:
    """Return `market-type=spot, ray.io/accelerator-type=in(T4, L4)`."""
    return ", ".join(f"{key}={condition}" for key, condition in selector.items())
