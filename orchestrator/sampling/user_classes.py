"""Samplers and pruners of users: any class of Optuna's interface, by `package.module:Class`.

A class is found as a user's own workload is: in the folder of the command, in PYTHONPATH, or
installed.
"""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import pydantic
from pydantic_core import PydanticCustomError

from orchestrator.sampling.kinds import BlockSeed, PrunerKind, SamplerKind
from orchestrator.sampling.memory import SEEN, Generations, LatestTrials, SeenTrials
from workloads.own_code import code_folders, describe_error, read_code

if TYPE_CHECKING:
    from optuna.pruners import BasePruner
    from optuna.samplers import BaseSampler

CLASS_PATTERN = r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*$"
"""The shape of the name of a class: `package.module:Class`."""

_T = TypeVar("_T")


class UserClassError(Exception):
    """A user's class that cannot be used; `option` is the wrong one of its arguments, if one is."""

    def __init__(self, reason: str, hint: str = "", *, option: str = "") -> None:
        super().__init__(reason)
        self.reason, self.hint, self.option = reason, hint, option


def is_user_class(name: str) -> bool:
    """Return whether a sampler or pruner is named as a class of the user's."""
    return re.match(CLASS_PATTERN, name) is not None


def describe_user_error(error: BaseException, name: str) -> str:
    """Return an error of a user's class `package.module:Class`, with the line in its code."""
    try:
        code = read_code(name)
    except ValueError:  # a module without a file, such as the `__main__` of a notebook
        code = None
    return describe_error(error, code)


class UserSampler(SamplerKind):
    """A sampler of your own: a subclass of `optuna.samplers.BaseSampler`, and its arguments.

    Its constructor gets these arguments, and the seed of the block if it takes a `seed`.
    """

    model_config = pydantic.ConfigDict(extra="allow")

    name: str = pydantic.Field(pattern=CLASS_PATTERN)
    about: ClassVar[str] = "any sampler of Optuna's interface"
    learns: ClassVar[bool] = True

    def make(self, block: BlockSeed) -> BaseSampler:
        """Return an instance for one block; raise `UserClassError` if there is none."""
        from optuna.samplers import BaseSampler  # noqa: PLC0415

        cls = _import_class(self.name, BaseSampler)
        seed = {"seed": block.value} if "seed" in inspect.signature(cls).parameters else {}
        return _construct(cls, {**self.options, **seed})

    def expect_usable(self) -> None:
        """Import the class and make an instance."""
        self.make(BlockSeed(index=0, value=0, of_sweep=0))

    def memory(self) -> SeenTrials:
        """Return the trials that breed for a genetic algorithm, the latest ones for others."""
        from optuna.samplers import BaseGASampler, BaseSampler  # noqa: PLC0415

        is_genetic = issubclass(_import_class(self.name, BaseSampler), BaseGASampler)
        return Generations() if is_genetic else LatestTrials(SEEN)

    @pydantic.model_validator(mode="after")
    def _without_seed(self) -> UserSampler:
        if "seed" in self.options:
            text = "remove it: each block has its own seed, from the seed of the sweep"
            context = {"expected": "", "received": text, "key": "seed"}
            raise PydanticCustomError("refusal", "{expected}", context)
        return self


class UserPruner(PrunerKind):
    """A pruner of your own: a subclass of `optuna.pruners.BasePruner`, and its arguments."""

    model_config = pydantic.ConfigDict(extra="allow")

    name: str = pydantic.Field(pattern=CLASS_PATTERN)
    about: ClassVar[str] = "any pruner of Optuna's interface"

    def expect_usable(self) -> None:
        """Import the class and make an instance."""
        self.make()

    @property
    def first_epoch(self) -> int:
        """The first epoch: the class does not say."""
        return 1

    def make(self) -> BasePruner:
        """Return an instance; raise `UserClassError` if there is none."""
        from optuna.pruners import BasePruner  # noqa: PLC0415

        return _construct(_import_class(self.name, BasePruner), self.options)


def _import_class(name: str, base: type[_T]) -> type[_T]:
    """Import `package.module:Class`, a subclass of `base`."""
    module_name, _, class_name = name.partition(":")
    try:
        with _code_folders_on_path():
            module = importlib.import_module(module_name)
    except (Exception, SystemExit) as error:
        hint = ""
        if isinstance(error, ModuleNotFoundError) and f"{module_name}.".startswith(
            f"{error.name}."
        ):
            hint = "put the module next to the spec file, or install its package"
        reason = f"cannot import {module_name}: {describe_user_error(error, name)}"
        raise UserClassError(reason, hint) from error
    found = getattr(module, class_name, None)
    if found is None:
        raise UserClassError(f"{module_name} has no class {class_name}")
    if not isinstance(found, type) or not issubclass(found, base):
        wanted = f"optuna.{base.__module__.split('.')[1]}.{base.__name__}"
        raise UserClassError(f"{class_name} of {module_name} is not a subclass of {wanted}")
    return found


def _construct(cls: type[_T], arguments: Mapping[str, Any]) -> _T:
    signature = inspect.signature(cls)
    try:
        signature.bind(**arguments)
    except TypeError as error:
        taken = [name for name in signature.parameters if name != "seed"]
        unknown = next((name for name in arguments if name not in taken), "")
        reason = f"{cls.__name__} has other arguments ({', '.join(taken) or 'none'}): {error}"
        raise UserClassError(reason, option=unknown) from error
    try:
        return cls(**arguments)
    except Exception as error:
        reason = describe_user_error(error, f"{cls.__module__}:{cls.__name__}")
        raise UserClassError(f"{cls.__name__} refuses its arguments: {reason}") from error


@contextmanager
def _code_folders_on_path() -> Iterator[None]:
    """Let imports find the modules of the current folder, and those next to the spec, last."""
    current = str(Path.cwd())
    folders = [
        f for f in code_folders() if f not in sys.path and (f != current or "" not in sys.path)
    ]
    sys.path.extend(folders)
    try:
        yield
    finally:
        for folder in folders:
            sys.path.remove(folder)
