"""Samplers, which suggest configs, and pruners, which end bad blocks early: one class for each.

`SAMPLERS` and `PRUNERS` list the built-in ones; `UserSampler` and `UserPruner` are any classes of
Optuna's interface that a user names. A spec, its JSON Schema, the plan and the documents read these
classes. `study_file` writes the blocks of a sweep as a study of Optuna. Nothing here imports Optuna
before it is needed, so that specs are checked quickly.
"""

from orchestrator.sampling.kinds import BlockSeed, PrunerKind, SamplerKind
from orchestrator.sampling.memory import OPEN_SEEN, SEEN
from orchestrator.sampling.pruners import PRUNERS
from orchestrator.sampling.samplers import SAMPLERS, Listed, Tpe, configs_from
from orchestrator.sampling.user_classes import (
    CLASS_PATTERN,
    UserClassError,
    UserPruner,
    UserSampler,
    is_user_class,
)

__all__ = [
    "CLASS_PATTERN",
    "OPEN_SEEN",
    "PRUNERS",
    "SAMPLERS",
    "SEEN",
    "BlockSeed",
    "Listed",
    "PrunerKind",
    "SamplerKind",
    "Tpe",
    "UserClassError",
    "UserPruner",
    "UserSampler",
    "configs_from",
    "is_user_class",
]
