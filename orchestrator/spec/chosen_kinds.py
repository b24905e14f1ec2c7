"""The sampler and the pruner of a spec: one of the built-in kinds, or a class of the user's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any, TypeAlias, TypeVar, Union

from pydantic import (
    BeforeValidator,
    Discriminator,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    GetPydanticSchema,
    Tag,
)
from pydantic_core import CoreSchema

from orchestrator import sampling
from orchestrator.spec import fields
from orchestrator.spec.spec_errors import nearest, shown_value

USER_CLASS = "package.module:Class"
"""How messages write the name of a user's class, and the tag of its kind."""

FORMER_NAMES = {
    "gp": "optuna.samplers:GPSampler",
    "hyperband": "optuna.pruners:HyperbandPruner",
    "wilcoxon": "optuna.pruners:WilcoxonPruner",
}
"""Names of 0.1.0, and what to write instead."""

ChosenKind = TypeVar("ChosenKind", bound=sampling.SamplerKind | sampling.PrunerKind)


def _tag(value: Any) -> str:
    """Return which kind a mapping, or a checked value, is."""
    name = value["name"] if isinstance(value, dict) else value.name
    return USER_CLASS if sampling.is_user_class(name) else str(name)


def _as_mapping(words: Sequence[str]) -> Callable[[Any], Any]:
    """Return a validator that accepts a name for a mapping, and refuses an unknown name."""
    expected = f"{', '.join(words)} or {USER_CLASS}"

    def convert(value: Any) -> Any:
        if isinstance(value, sampling.SamplerKind | sampling.PrunerKind):
            return value
        if not isinstance(value, str | dict):
            raise fields.refusal(f"{expected}, or a mapping", shown_value(value))
        is_short = isinstance(value, str)
        name, key = (value, "") if isinstance(value, str) else (value.get("name"), "name")
        if not isinstance(name, str) or not (name in words or sampling.is_user_class(name)):
            former = FORMER_NAMES.get(name) if isinstance(name, str) else None
            hint = f"write {former}" if former else nearest(name, words)
            raise fields.refusal(expected, shown_value(name), key=key, hint=hint)
        return {"name": value} if is_short else value

    return convert


def _one_of(kinds: Sequence[type[ChosenKind]], user_class: type[ChosenKind]) -> GetPydanticSchema:
    """Return the schema of a field that has one of the kinds, or a class of the user's."""
    words = [kind.word() for kind in kinds]
    tagged = [Annotated[kind, Tag(kind.word())] for kind in kinds]
    tagged.append(Annotated[user_class, Tag(USER_CLASS)])
    union: Any = Annotated[
        Union[tuple(tagged)],  # noqa: UP007  (made of a list)
        Discriminator(_tag),
        BeforeValidator(_as_mapping(words)),
    ]

    def core_schema(_: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return handler.generate_schema(union)

    def json_schema(core: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        """Return the words, and a section for each kind that has options."""
        forms = handler(core)["oneOf"]
        with_options = [
            form
            for form, kind in zip(forms, [*kinds, user_class], strict=True)
            if kind.has_options()
        ]
        names = {"enum": [kind.word() for kind in kinds if not kind.has_options()]}
        described = {**names, "description": "The kind."}
        plain: dict[str, Any] = {
            "type": "object",
            "properties": {"name": described},
            "required": ["name"],
            "additionalProperties": False,
        }
        text = [{"enum": words}, {"type": "string", "pattern": sampling.CLASS_PATTERN}]
        return {"anyOf": [*text, *([plain] if names["enum"] else []), *with_options]}

    return GetPydanticSchema(core_schema, json_schema)


def _described(kinds: Sequence[type[ChosenKind]], user_class: type[ChosenKind]) -> str:
    texts = []
    for kind in kinds:
        learns = issubclass(kind, sampling.SamplerKind) and kind.learns
        texts.append(f"{kind.word()} {kind.about}{' (learns from results)' if learns else ''}")
    return "; ".join([*texts, f"{USER_CLASS} is {user_class.about}"])


Sampler: TypeAlias = Annotated[
    sampling.SamplerKind, _one_of(sampling.SAMPLERS, sampling.UserSampler)
]
Pruner: TypeAlias = Annotated[sampling.PrunerKind, _one_of(sampling.PRUNERS, sampling.UserPruner)]

SAMPLER_TEXT = f"What suggests the configs: {_described(sampling.SAMPLERS, sampling.UserSampler)}."
PRUNER_TEXT = (
    "What ends bad configs early, by the objective after each epoch: "
    f"{_described(sampling.PRUNERS, sampling.UserPruner)}."
)

SAMPLER_MODELS = {kind.word(): kind for kind in sampling.SAMPLERS}
PRUNER_MODELS = {kind.word(): kind for kind in sampling.PRUNERS}
