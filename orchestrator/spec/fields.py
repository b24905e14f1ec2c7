"""Types of the fields of a spec, and the base class of its models."""

import re
from typing import Annotated, Any, TypeAlias

import pydantic
from pydantic_core import CoreSchema, PydanticCustomError

from orchestrator.core.selectors import split_arm_text
from orchestrator.core.trial import ConfigValue, Scalar, is_number
from workloads import implementations
from workloads.own_code import entry_of_file
from workloads.registry import ENTRY_PATTERN

Json: TypeAlias = dict[str, Any]
"""A part of a JSON Schema."""


class Strict(pydantic.BaseModel):
    """A frozen model that refuses unknown keys, and `"3"` where 3 is expected."""

    model_config = pydantic.ConfigDict(
        frozen=True, extra="forbid", strict=True, allow_inf_nan=False
    )

    @classmethod
    def short_form(cls) -> Json | None:
        """Return the JSON Schema of what may be written instead of the mapping; None if nothing."""
        return None

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core: CoreSchema, handler: pydantic.GetJsonSchemaHandler
    ) -> Json:
        """Return the schema of the model, with its short form."""
        reference = handler(core)
        short = cls.short_form()
        if short is not None:
            section = handler.resolve_ref_schema(reference)
            mapping = dict(section)
            section.clear()
            section["description"] = mapping.pop("description")
            section["anyOf"] = [short, mapping]
        return reference


def refusal(
    expected: str, received: str = "", *, key: str = "", hint: str = ""
) -> PydanticCustomError:
    """Return the error of a validator; `key` names the wrong key of a mapping."""
    context = {"expected": expected, "received": received, "key": key, "hint": hint}
    return PydanticCustomError("refusal", "{expected}", context)


def statement(text: str, *, key: str = "", hint: str = "") -> PydanticCustomError:
    """Return the error of a validator for a value that does not fit others; `text` says so."""
    return refusal("", text, key=key, hint=hint)


def missing(expected: str) -> PydanticCustomError:
    """Return the error of a validator for a key that has no value, and needs one."""
    return PydanticCustomError("missing", "{expected}", {"expected": expected})


def entry_name(text: str, function: str) -> str:
    """Return the entry of a user's function, `package.module:NAME`; a file stands for its module.

    `function` is the name for a file without one. Raise a refusal for any other text.
    """
    entry = entry_of_file(text, function) or text
    if not re.fullmatch(ENTRY_PATTERN, entry):
        raise refusal(
            "module:function, with a module that Python can import from here",
            hint=f"for {function}() in mine.py write mine:{function} or mine.py:{function}",
        )
    return entry


def as_tuple(value: Any) -> Any:
    """Convert a list of YAML to a tuple, which frozen models hold."""
    return tuple(value) if isinstance(value, list) else value


def _number(value: Any) -> Any:
    if not is_number(value):
        raise refusal("a number")
    return value


def _scalar(value: Any) -> Any:
    if not isinstance(value, bool | int | float | str):
        raise refusal("a number, a text, true or false")
    return value


def _parameter_value(value: Any) -> Any:
    parts = value if isinstance(value, list | tuple) else (value,)
    if not all(isinstance(part, bool | int | float | str | None) for part in parts):
        raise refusal("a number, a text, true, false, null, or a list of these")
    return as_tuple(value)


def _implementation(text: str) -> str:
    """Return the canonical spelling of an implementation, its options sorted."""
    try:
        return str(implementations.parse_implementation(text))
    except implementations.ImplementationError as error:
        shape = "backend/kernel[+option…], such as tensorflow/portable+xla, each option once"
        raise refusal(shape) from error


def arm_text(text: str) -> str:
    """Return the canonical spelling of `implementation` or `variant: implementation`.

    Either may have ` on hardware`, and so may a variant alone.
    """
    name, hardware = split_arm_text(text)
    if hardware == "":
        raise refusal("IMPLEMENTATION, or IMPLEMENTATION on HARDWARE")
    variant, colon, implementation = name.rpartition(": ")
    if "/" in name:
        name = f"{variant}{colon}{_implementation(implementation)}"
    return name if hardware is None else f"{name} on {hardware}"


IntOrFloat: TypeAlias = Annotated[int | float, pydantic.BeforeValidator(_number)]
ScalarValue: TypeAlias = Annotated[Scalar, pydantic.BeforeValidator(_scalar)]
ParameterValue: TypeAlias = Annotated[ConfigValue, pydantic.BeforeValidator(_parameter_value)]
Text: TypeAlias = Annotated[str, pydantic.StringConstraints(pattern=r"\S")]
PositiveFloat: TypeAlias = Annotated[float, pydantic.Field(gt=0)]
PositiveInt: TypeAlias = Annotated[int, pydantic.Field(ge=1)]
ImplementationText: TypeAlias = Annotated[str, pydantic.AfterValidator(_implementation)]
ArmText: TypeAlias = Annotated[str, pydantic.AfterValidator(arm_text)]
ParameterName: TypeAlias = Annotated[
    str, pydantic.StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")
]
MetricName: TypeAlias = Annotated[
    str, pydantic.StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_./ -]*$")
]
"""The name of a metric, also as Keras and its users write them: `val_MAE`, `val_out-1_auc`."""
