"""The model that is measured: Keras' own, which remembers what was traced and tells when it ran.

Run inside a trainer process: imports Keras.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import keras

from workloads.frameworks import Framework

_SIDES = ("forward", "backward")  # of Bidirectional


@dataclass(slots=True)
class Witness:
    """What a model remembers of its steps.

    A plain object beside the model, because Keras wraps lists and dicts that are set on one.
    """

    framework: Framework
    tracings: Counter[str] = field(default_factory=Counter)
    """How often each step was traced; a count that stays the same shows that nothing was."""

    eager_steps: int = 0
    """Train steps that ran as they are, untraced."""

    traced: list[Any] = field(default_factory=list)
    """Of each tracing of the train step, what `Framework.traced` keeps."""

    states: tuple[Any, ...] = ()
    step: Callable[[Any], Any] | None = None
    """What takes a train step in the place of Keras' own (see
    `workloads.models.direct_torch_step`).
    """

    after_steps: Callable[[], None] | None = None
    _looking_away: bool = False

    def note(self, step: str, arguments: Any) -> None:
        """A step is being called: at each step where it runs as it is, else while it is traced."""
        if self._looking_away:
            return
        traced = self.framework.traced(arguments)
        if traced is not None:
            self.tracings[step] += 1
        if step == "train":
            if traced is None:
                self.eager_steps += 1
            else:
                self.traced.append(traced)

    @contextmanager
    def looking_away(self) -> Iterator[None]:
        """Note nothing meanwhile: the steps are called for their evidence only."""
        self._looking_away = True
        try:
            yield
        finally:
            self._looking_away = False


class WitnessedModel(keras.Sequential):
    """A model that remembers each tracing of its steps, and tells when an epoch's steps are done.

    At run time it is the plain model.
    """

    def __init__(self, layers: Sequence[Any], *, name: str, framework: Framework) -> None:
        super().__init__(list(layers), name=name)
        self.witness = Witness(framework)
        self.witness.states = _untracked_states(self)

    @property
    def variables(self) -> list[Any]:
        """Keras' own, and the states of stateful layers, which it leaves out.

        JAX's compiled steps take and return these: any other variable keeps the value that it
        had, so that a stateful layer would quietly begin anew with each batch.
        """
        return [*super().variables, *self._states]

    @property
    def _states(self) -> tuple[Any, ...]:
        return self.witness.states if hasattr(self, "witness") else ()  # Keras asks early

    def callbacks(self) -> list[Any]:
        """Those that `fit` is to have because of the model."""
        return []

    def train_step(self, *arguments: Any) -> Any:
        """Keras' own step: of the data, and on JAX of the state before it."""
        self.witness.note("train", arguments)
        return super().train_step(*arguments)

    def test_step(self, *arguments: Any) -> Any:
        """Keras' own step."""
        self.witness.note("test", arguments)
        return super().test_step(*arguments)

    def predict_step(self, *arguments: Any) -> Any:
        """Keras' own step."""
        self.witness.note("predict", arguments)
        return super().predict_step(*arguments)

    def _get_metrics_result_or_logs(self, logs: Any) -> Any:
        """Keras' own; `fit` calls it once, right after an epoch's last step, before it validates.

        That moment is the end of the training window. `on_test_begin` comes too late: in the
        first epoch `fit` builds the validation pipeline before it.
        """
        result = super()._get_metrics_result_or_logs(logs)
        if self.witness.after_steps is not None:
            self.witness.after_steps()
        return result


def _untracked_states(model: keras.Sequential) -> tuple[Any, ...]:
    """The states of Keras' stateful layers, each once; those of ours are variables like others."""
    cells = [getattr(layer, f"{side}_layer", None) for layer in model.layers for side in _SIDES]
    states = [
        state for each in (*model.layers, *cells) for state in getattr(each, "states", None) or ()
    ]
    known = {id(variable) for variable in model.variables}
    return tuple({id(state): state for state in states if id(state) not in known}.values())
