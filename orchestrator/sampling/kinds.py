"""What a kind of sampler and a kind of pruner are: a class each, whose fields are its options.

An instance is what a spec chose: `search.sampler` is a `SamplerKind`, `search.pruner` a
`PrunerKind`. It is frozen, compares by its options, and its dump is what a spec may contain: the
name alone for a kind without options, else a mapping.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias

import pydantic

from orchestrator.sampling.memory import SEEN, FirstTrial, LatestTrials, SeenTrials

if TYPE_CHECKING:
    from optuna.pruners import BasePruner
    from optuna.samplers import BaseSampler


ConfigsFrom: TypeAlias = Literal["sampler", "space", "list"]
"""What decides the configs: the sampler, which suggests them; the whole space; the spec's list."""


@dataclass(frozen=True, slots=True)
class BlockSeed:
    """What a sampler may depend on, besides the study: one block of one sweep.

    `value` is a seed for the block, another one for each `attempt` to suggest a config that the
    sweep does not have yet; `of_sweep` is one seed for all blocks.
    """

    index: int
    value: int
    of_sweep: int


def _require_name(schema: dict[str, Any]) -> None:
    """Say in a kind's JSON Schema that a mapping has a name, and what the name is."""
    name = schema["properties"]["name"]
    name.pop("default", None)
    of_user = "The class; all other keys are arguments of its constructor."
    name["description"] = "The kind." if "const" in name else of_user
    schema["required"] = ["name"]


class _Kind(pydantic.BaseModel):
    """A kind with its options, as a spec has it."""

    model_config = pydantic.ConfigDict(
        frozen=True,
        extra="forbid",
        strict=True,
        allow_inf_nan=False,
        json_schema_extra=_require_name,
    )

    name: str

    about: ClassVar[str]
    """What it does, in a few words, for the documents."""

    @classmethod
    def word(cls) -> str:
        """Return the name by which a spec chooses this kind."""
        return str(cls.model_fields["name"].default)

    @classmethod
    def has_options(cls) -> bool:
        """Return whether a spec may give options besides the name."""
        return len(cls.model_fields) > 1 or cls.model_config.get("extra") == "allow"

    def expect_usable(self) -> None:
        """Raise `UserClassError` if this is a class of the user's that cannot be used."""

    @property
    def options(self) -> dict[str, Any]:
        """All options, with the defaults of those that the spec does not give."""
        return {name: value for name, value in self if name != "name"}

    @pydantic.model_serializer(mode="wrap")
    def _as_written(self, dump: pydantic.SerializerFunctionWrapHandler) -> Any:
        options: dict[str, Any] = dump(self)
        # A kind that Python code made has no `name` that was set, so that a dump may lack it.
        return {**options, "name": self.name} if self.options else self.name


class SamplerKind(_Kind, ABC):
    """A kind of sampler. Its fields, besides `name`, are the options that a spec may give.

    A sweep asks for one config after another. For each block it calls `make` and lets Optuna ask
    the new sampler, once: what a sampler suggests follows from its options, the block's seed and
    the finished blocks in the study. It holds nothing else, because a sweep that is stopped makes
    new samplers when it resumes, and they must suggest the same configs. If a config was in the
    sweep already, another sampler is made, with another seed, up to `attempts` times; after that
    the config is drawn at random.
    """

    learns: ClassVar[bool]
    """Whether it learns from the results of blocks: then the search needs an objective."""

    configs_from: ClassVar[ConfigsFrom] = "sampler"
    """What decides the configs. If it is not the sampler, each config is a block, and no more."""

    attempts: ClassVar[int] = 64
    """How often it is asked again for a config that the sweep does not have yet."""

    sees: ClassVar[int | None] = SEEN
    """How many of the latest finished blocks it learns from, if it learns; None for any number."""

    @abstractmethod
    def make(self, block: BlockSeed) -> BaseSampler:
        """Return a new sampler for one block."""

    def memory(self) -> SeenTrials:
        """Return what decides, in one start of a sweep, which finished trials the sampler sees."""
        if not self.learns:
            return FirstTrial()
        assert self.sees is not None  # a kind that sees any number has a memory of its own
        return LatestTrials(self.sees)


class PrunerKind(_Kind, ABC):
    """A kind of pruner. Its fields, besides `name`, are the options that a spec may give.

    Its steps are epochs, counted from 0, and its trials are blocks. `make` is called once in each
    start of a sweep. After each epoch of the arm that speaks for a block, Optuna asks the pruner
    whether the block ends; a resumed sweep asks it about the earlier epochs first. What a pruner
    decides has to follow from its options and the study alone.
    """

    @property
    @abstractmethod
    def first_epoch(self) -> int:
        """The number of epochs after which a block may end at the earliest."""

    @property
    def startup_blocks(self) -> int:
        """How many blocks have to be complete before one may end."""
        return 0

    @abstractmethod
    def make(self) -> BasePruner:
        """Return Optuna's pruner with these options."""
