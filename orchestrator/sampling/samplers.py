"""The built-in samplers. To add one, write its class here and add it to `SAMPLERS`."""

# ruff: noqa: PLC0415  (Optuna is imported when a sampler is made)

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from orchestrator.sampling.kinds import BlockSeed, ConfigsFrom, SamplerKind
from orchestrator.sampling.memory import Generations, SeenTrials

if TYPE_CHECKING:
    from optuna.samplers import BaseSampler


class Tpe(SamplerKind):
    """Optuna's tree-structured Parzen estimator."""

    name: Literal["tpe"] = "tpe"
    about: ClassVar[str] = "looks where earlier configs were good"
    learns: ClassVar[bool] = True

    def make(self, block: BlockSeed) -> BaseSampler:
        """Return a sampler that keeps blocks apart that are open at once (the constant liar)."""
        from optuna.samplers import TPESampler

        return TPESampler(seed=block.value, constant_liar=True)


class Nsga2(SamplerKind):
    """Optuna's genetic algorithm NSGA-II."""

    name: Literal["nsga2"] = "nsga2"
    about: ClassVar[str] = "breeds generations of configs, for several objectives"
    learns: ClassVar[bool] = True
    sees: ClassVar[int | None] = None

    def make(self, block: BlockSeed) -> BaseSampler:
        """Return a sampler that finds the generations in the study."""
        from optuna.samplers import NSGAIISampler

        return NSGAIISampler(seed=block.value)

    def memory(self) -> SeenTrials:
        """Return the trials that breed."""
        return Generations()


class Random(SamplerKind):
    """Independent random configs."""

    name: Literal["random"] = "random"
    about: ClassVar[str] = "draws configs at random"
    learns: ClassVar[bool] = False

    def make(self, block: BlockSeed) -> BaseSampler:
        """Return a sampler of this block's config."""
        from optuna.samplers import RandomSampler

        return RandomSampler(seed=block.value)


class Grid(Random):
    """All combinations, in a random order. `Search.points` has them: nothing is sampled."""

    name: Literal["grid"] = "grid"  # type: ignore[assignment]
    about: ClassVar[str] = "tries all combinations"
    configs_from: ClassVar[ConfigsFrom] = "space"


class Qmc(SamplerKind):
    """A scrambled Sobol sequence, of which each block takes the point of its index."""

    name: Literal["qmc"] = "qmc"
    about: ClassVar[str] = "spreads configs evenly (a quasi-random sequence)"
    learns: ClassVar[bool] = False
    attempts: ClassVar[int] = 1  # the block's point stays the same

    def make(self, block: BlockSeed) -> BaseSampler:
        """Return a sampler of the block's point; the parameters that it lacks are random."""
        from optuna.samplers import QMCSampler, RandomSampler

        class PointOfSequence(QMCSampler):
            def _find_sample_id(self, *_: object) -> int:
                return max(0, block.index - 1)  # the first block is random: it shows the parameters

        return PointOfSequence(
            seed=block.of_sweep,
            scramble=True,
            independent_sampler=RandomSampler(seed=block.value),
            warn_independent_sampling=False,
        )


class Listed(Random):
    """The configs that the spec lists. `Search.points` has them: nothing is sampled."""

    name: Literal["list"] = "list"  # type: ignore[assignment]
    about: ClassVar[str] = "takes the configs that search.configs lists"
    configs_from: ClassVar[ConfigsFrom] = "list"


SAMPLERS: tuple[type[SamplerKind], ...] = (Tpe, Nsga2, Random, Grid, Qmc, Listed)
"""The built-in samplers, in the order of the documents."""


def configs_from(sampler: str) -> ConfigsFrom:
    """Return what decided the configs of a recorded sweep with the sampler of this name.

    A user's class suggests them, and so does a sampler that this rnnsweep does not have.
    """
    return next((kind.configs_from for kind in SAMPLERS if kind.word() == sampler), "sampler")
