"""The settings of the built-in workloads, with bounds and defaults. Imports no framework.

`settings.toml` describes them.
"""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, model_validator

from workloads.layer_traits import SIMPLE_CELLS, Cell, LayerTraits, Mask

ImageSet: TypeAlias = Literal["digits", "mnist"]
CorpusName: TypeAlias = Literal["python-docs", "shakespeare", "file", "zipf"]
ReviewSet: TypeAlias = Literal["imdb", "python-docs"]
Activation: TypeAlias = Literal["tanh", "sigmoid", "relu", "hard_sigmoid", "linear"]
Layers: TypeAlias = Annotated[int, Field(ge=1, le=32)]
BatchSize: TypeAlias = Annotated[int, Field(ge=1, le=1_000_000)]
Rate: TypeAlias = Annotated[float, Field(ge=0, lt=1)]
UpTo10: TypeAlias = Annotated[float, Field(gt=0, le=10)]
Width: TypeAlias = Annotated[int, Field(ge=1, le=16_384)]
Length: TypeAlias = Annotated[int, Field(ge=1, le=100_000)]
Count: TypeAlias = Annotated[int | None, Field(ge=1)]


_TEXTS = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))


def _describe(schema: dict[str, Any], model: type[Any]) -> None:
    for name, text in model.meanings().items():
        schema["properties"][name]["description"] = text


class _Settings(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, json_schema_extra=_describe)

    @classmethod
    def meanings(cls) -> Mapping[str, str]:
        """Return what each setting means, by its name."""
        own = [_TEXTS.get(one.__name__, {}) for one in reversed(cls.__mro__)]
        return {name: text for texts in own for name, text in texts.items()}


class StackSettings(_Settings):
    """A stack of equal recurrent layers, and the batch size."""

    cell: Cell = "lstm"
    units: Width = 128
    layers: Layers = 1
    bidirectional: bool = False
    activation: Activation = "tanh"
    recurrent_activation: Activation = "sigmoid"
    recurrent_dropout: Rate = 0.0
    use_bias: bool = True
    dropout: Rate = 0.0
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


class RecurrentSettings(StackSettings):
    """A stack that is trained; the settings of a workload add its data and its head."""

    learning_rate: UpTo10 = 1e-3
    epochs: int = Field(1, ge=1, le=100_000)
    timed_steps: int = Field(30, ge=0, le=10_000)
    target_accuracy: float | None = Field(None, gt=0, le=1)
    keep: Literal["best"] | None = None

    of_data_path: ClassVar[tuple[str, ...]] = ()
    """The data sets that are read from `data_path`."""

    @model_validator(mode="after")
    def _data_path_goes_with_the_dataset(self) -> Self:
        dataset = getattr(self, "dataset", None)
        if getattr(self, "data_path", None) is not None and dataset not in self.of_data_path:
            raise ValueError(
                f"data_path is read for dataset {' or '.join(self.of_data_path)} only, but dataset"
                f" is {dataset!r}: remove data_path or set dataset to {self.of_data_path[0]}"
            )
        return self


class ImageRowsSettings(RecurrentSettings):
    """Classification of images whose rows are a sequence; the defaults are the published model.

    LSTM(128, sequences) → Dropout .2 → LSTM(128) → Dropout .1 → Dense(32, relu) → Dropout .2 →
    Dense(10, softmax), as in the mnist-CuDNNLSTM comparison, with tanh on both sides.
    """

    dataset: ImageSet = "digits"
    data_path: str | None = None
    samples: Count = None
    validation_samples: Count = None
    layers: Layers = 2
    dropout: Rate = 0.2
    dense_units: Width = 32
    learning_rate: UpTo10 = 1e-3
    decay: float = Field(1e-5, ge=0, le=1)
    epochs: int = Field(3, ge=1, le=100_000)

    of_data_path = ("mnist",)


class SentimentSettings(RecurrentSettings):
    """Classification of reviews as good or bad; the defaults are those of Keras' IMDb example.

    Embedding(20,000 → 128, padding masked) → bidirectional LSTM(64) → Dropout .5 → Dense(1,
    sigmoid); Adam, batch 32.
    """

    dataset: ReviewSet = "imdb"
    data_path: str | None = None
    samples: Count = None
    validation_samples: Count = None
    vocabulary: int = Field(20_000, ge=4, le=1_000_000)
    sequence_length: Length = 100
    padding: Literal["right", "left"] = "right"
    masked: bool = True
    embedding_units: Width = 128
    units: Width = 64
    bidirectional: bool = True
    dropout: Rate = 0.5

    of_data_path = ("imdb",)

    @property
    def mask(self) -> Mask:
        """The side of the sequences' padding, if it is masked."""
        return self.padding if self.masked else "none"


class TextSettings(RecurrentSettings):
    """A stack between an embedding and a softmax over the vocabulary."""

    dataset: CorpusName = "python-docs"
    data_path: str | None = None
    vocabulary: int = Field(128, ge=2, le=1_000_000)
    sequence_length: Length = 64
    embedding_units: Width = 64

    of_data_path = ("file", "shakespeare")

    @model_validator(mode="after")
    def _expect_path_of_file(self) -> Self:
        if self.dataset == "file" and self.data_path is None:
            raise ValueError("dataset file: expected data_path, the path of a UTF-8 text")
        return self


class NextTokenSettings(TextSettings):
    """Prediction of the token that follows a window of text.

    Embedding → recurrent layers → Dense(vocabulary, softmax); Adam. With `samples: 612235` and one
    epoch it reproduces the published comparison of Keras' LSTM and CuDNNLSTM.
    """

    tokens: Literal["character", "word"] = "character"
    samples: int = Field(100_000, ge=1, le=100_000_000)
    validation_samples: int = Field(10_000, ge=1, le=100_000_000)
    batch_size: BatchSize = 128


class CharRnnSettings(TextSettings):
    """A character-level language model; the defaults are those of MyCaffe's Char-RNN.

    Embedding(128 → 15) → LSTM(512) → LSTM(512) → Dense(softmax) at each of 75 characters, 25
    parallel streams of text, whose states continue from batch to batch; SGD 0.05, momentum 0.9.
    """

    batches: Literal["stateful", "windows"] = "stateful"
    samples: Count = None
    validation_samples: Count = None
    sequence_length: Length = 75
    embedding_units: Width = 15
    units: Width = 512
    layers: Layers = 2
    dropout: Rate = 0.3
    dropout_after: Literal["between", "all"] = "between"
    learning_rate: UpTo10 = 0.05
    momentum: Rate = 0.9
    batch_size: BatchSize = 25
    sample_characters: int = Field(500, ge=0, le=100_000)
    temperature: UpTo10 = 0.8

    @model_validator(mode="after")
    def _reads_forward_only(self) -> Self:
        if self.bidirectional:
            raise ValueError(
                "bidirectional: expected false, because the backward direction would read the"
                " character to predict; see next_token for both directions"
            )
        return self

    @property
    def stateful(self) -> bool:
        """True if a batch starts from the final states of the previous one."""
        return self.batches == "stateful"


class SyntheticSettings(StackSettings):
    """Recurrent layers alone, on random input: no data, no head, no optimizer.

    Input is uniform in [-1, 1] as in Braun 2018. The defaults are the first row of that paper.
    """

    features: Length = 123
    sequence_length: Length = 100
    units: Width = 320
    batch_size: BatchSize = 64
    timed_steps: int = Field(100, ge=2, le=1_000_000)


class SaveRequest(_Settings):
    """Settings of `parity:save`: train, then save `INTO.npz` (weights) and `INTO.outputs.npy`."""

    settings: ImageRowsSettings
    into: str


class LoadRequest(_Settings):
    """Settings of `parity:compare`: the saved files, and the digest of the training data."""

    settings: ImageRowsSettings
    digest: str
    saved: list[str]


class OutputComparison(_Settings):
    """The comparison of a checkpoint that another implementation saved.

    `difference` is the largest difference between an output and the saved one, divided by the
    largest saved output; None if an output is not finite. `exact` is True if the loaded weights
    read back bit by bit as they were saved.
    """

    difference: float | None
    exact: bool


OUTPUT_COMPARISONS = TypeAdapter(tuple[OutputComparison, ...])
ANSWER = "compared.json"
"""The artifact that answers a `LoadRequest`: one `OutputComparison` for each entry of `saved`."""
