"""The settings that all tasks share, with bounds and defaults. Imports no framework.

Each task has its own model beside it (`workloads/tasks/NAME/settings.py`). What a setting means
stands beside its field; the JSON schema of a spec and `docs/workloads.md` derive from these fields.
"""

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, Self, TypeAlias, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from workloads.layer_traits import SIMPLE_CELLS, Cell, LayerTraits, Mask

Activation: TypeAlias = Literal["tanh", "sigmoid", "relu", "hard_sigmoid", "linear"]
Rate: TypeAlias = Annotated[float, Field(ge=0, lt=1)]
UpTo10: TypeAlias = Annotated[float, Field(gt=0, le=10)]
Width: TypeAlias = Annotated[int, Field(ge=1, le=16_384)]
Length: TypeAlias = Annotated[int, Field(ge=1, le=100_000)]

# Settings whose default differs from task to task keep their meaning with their type.
Units: TypeAlias = Annotated[Width, Field(description="width of each recurrent layer")]
Layers: TypeAlias = Annotated[int, Field(ge=1, le=32, description="number of recurrent layers")]
Bidirectional: TypeAlias = Annotated[
    bool, Field(description="every layer in both directions, concatenated")
]
Dropout: TypeAlias = Annotated[Rate, Field(description="dropout after every recurrent layer")]
BatchSize: TypeAlias = Annotated[int, Field(ge=1, le=1_000_000, description="samples per step")]
LearningRate: TypeAlias = Annotated[
    UpTo10, Field(description="initial learning rate of the optimizer: Adam, in char_rnn SGD")
]
TrainingSamples: TypeAlias = Annotated[
    int | None,
    Field(ge=1, description="how many training samples to use, from the first on; null: all"),
]
ValidationSamples: TypeAlias = Annotated[
    int | None,
    Field(ge=1, description="how many validation samples to use, from the first on; null: all"),
]
SequenceLength: TypeAlias = Annotated[
    Length, Field(description="steps per sequence: tokens, characters or words")
]


StartWeights: TypeAlias = Literal["equal", "own"]


@dataclass(frozen=True, slots=True)
class MetricGoal:
    """A value of a metric whose training time is measured: the metric `reported_as` has it."""

    metric: str
    at_least: float
    reported_as: str


@dataclass(frozen=True, slots=True)
class TrainingPlan:
    """How much a trial trains: all that the measurement needs to know of a task's settings.

    `timed_steps` are timed one by one after the epochs. `keeps_model`: the trained model is offered
    as the one to keep of its arm. `class_weight`: by the number of a class, the weight of its
    samples in the loss of training, as Keras' `fit` takes it; 1 for a class that is not named.
    `learns`: False for random data, whose losses and metrics mean nothing and are not reported.
    `weights`: `equal` for initial weights that are drawn anew, equal on all arms, and `own` for
    those that the model was built with. `shuffle`: whether the samples of training are shuffled
    once; None for yes, unless the model carries a state from batch to batch.
    """

    batch_size: int
    epochs: int = 1
    timed_steps: int = 0
    goal: MetricGoal | None = None
    keeps_model: bool = False
    class_weight: Mapping[int, float] | None = None
    learns: bool = True
    weights: StartWeights = "equal"
    shuffle: bool | None = None


class TaskSettings(BaseModel):
    """The settings of a task: checked strictly, unknown names refused, never changed."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    data_settings: ClassVar[tuple[str, ...]] = ()
    """Settings that decide the data; they are equal in all trials of a sweep."""

    work_settings: ClassVar[tuple[str, ...]] = ()
    """Settings that decide the amount of work, which may differ on slow hardware."""

    @classmethod
    def meanings(cls) -> Mapping[str, str]:
        """Return what each setting means, by its name."""
        return {name: field.description or "" for name, field in cls.model_fields.items()}

    def traits(self) -> LayerTraits | None:
        """Return the traits that decide which kernel may run the model; None if unknown."""
        return None

    def data_digest(self) -> str | None:
        """Return the SHA-256 of the data; None if unknown before loading.

        Raise `DataError` if the data is missing here.
        """
        return None

    def expect_data(self) -> None:
        """Raise `DataError` if a trial on this machine could not have its data; by default none."""


class StackSettings(TaskSettings):
    """A stack of equal recurrent layers, and the batch size."""

    cell: Cell = Field("lstm", description="the recurrent cell")
    units: Units = 128
    layers: Layers = 1
    bidirectional: Bidirectional = False
    activation: Activation = Field(
        "tanh",
        description="activation of lstm and gru (cuDNN: tanh only)",
    )
    recurrent_activation: Activation = Field(
        "sigmoid", description="activation of the gates of lstm and gru (cuDNN: sigmoid only)"
    )
    recurrent_dropout: Rate = Field(
        0.0, description="dropout on the recurrent state; cuDNN has none"
    )
    use_bias: bool = Field(True, description="bias in the recurrent layers; cuDNN needs it")
    dropout: Dropout = 0.0
    batch_size: BatchSize = 32

    @model_validator(mode="after")
    def _simple_cells_are_named_by_their_activation(self) -> Self:
        usual = ("tanh", "sigmoid")
        if self.cell in SIMPLE_CELLS and (self.activation, self.recurrent_activation) != usual:
            raise ValueError(
                f"cell {self.cell!r} has a fixed activation: remove activation and"
                " recurrent_activation"
            )
        return self

    @property
    def directions(self) -> int:
        """1 or 2."""
        return 2 if self.bidirectional else 1

    @property
    def mask(self) -> Mask:
        """The side of the sequences' padding."""
        return "none"

    @property
    def stateful(self) -> bool:
        """True if a batch starts from the final states of the previous one."""
        return False

    def traits(self) -> LayerTraits:
        """Return the traits that decide which kernel may run these layers."""
        names = LayerTraits.__dataclass_fields__
        return LayerTraits(**{name: getattr(self, name) for name in names})


SettingsType = TypeVar("SettingsType", bound=TaskSettings)


def check_settings(model: type[SettingsType], settings: Mapping[str, Any]) -> SettingsType:
    """Return the settings as a model of that class, or raise pydantic's `ValidationError`.

    Equal settings of a class are checked once in a process: a plan asks for the same ones on each
    implementation, and each trial of a block has the settings of the block.
    """
    items = tuple((name, type(value), value) for name, value in settings.items())
    try:
        hash(items)
    except TypeError:  # a list or a mapping as value
        return model.model_validate(dict(settings))
    checked = _check_once(model, items)
    if isinstance(checked, ValidationError):
        raise checked.with_traceback(None)
    return checked


@functools.lru_cache(maxsize=4096)
def _check_once(
    model: type[SettingsType], items: tuple[tuple[str, type[Any], Any], ...]
) -> SettingsType | ValidationError:
    try:
        return model.model_validate({name: value for name, _, value in items})
    except ValidationError as error:
        return error
