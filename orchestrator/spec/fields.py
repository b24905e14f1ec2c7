"""The kinds of values that a spec's fields take, and the base of its models."""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

from pydantic import AfterValidator, BaseModel, ConfigDict, StringConstraints
from pydantic_core import PydanticCustomError

from workloads import implementations


class Strict(BaseModel):
    """Frozen; refuses keys that it does not know, and `"3"` where 3 is wanted."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


def refusal(
    expected: str, received: str = "", *, key: str = "", hint: str = ""
) -> PydanticCustomError:
    """A validator's error in a spec's terms; `key` says which key of a mapping is meant."""
    context = {"expected": expected, "received": received, "key": key, "hint": hint}
    return PydanticCustomError("refusal", "{expected}", context)


def as_tuple(value: Any) -> Any:
    """YAML has lists; frozen models hold tuples."""
    return tuple(value) if isinstance(value, list) else value


def _implementation(text: str) -> str:
    """The one spelling of an implementation (options sorted); unknown names are another check."""
    try:
        return str(implementations.parse_implementation(text, known_only=False))
    except implementations.ImplementationError as error:
        shape = "backend/kernel[+option…], such as tensorflow/portable+xla, each option once"
        raise refusal(shape) from error


def arm_text(text: str) -> str:
    """The one spelling of `implementation`, or `implementation on hardware`."""
    name, on, hardware = text.partition(" on ")
    if on and not hardware.strip():
        raise refusal("implementation, or implementation on hardware")
    return f"{_implementation(name.strip())}{on}{hardware.strip()}"


ImplementationText: TypeAlias = Annotated[str, AfterValidator(_implementation)]
ArmText: TypeAlias = Annotated[str, AfterValidator(arm_text)]
ParameterName: TypeAlias = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
MetricName: TypeAlias = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]*$")]
