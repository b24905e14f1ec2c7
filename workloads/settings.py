"""The settings of the built-in workloads, with bounds and defaults. Imports no framework."""

from typing import Annotated, ClassVar, Literal, Self, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, model_validator

from workloads.eligibility import SIMPLE_CELLS, Cell, LayerTraits, Mask

ImageSet: TypeAlias = Literal["digits", "mnist"]
CorpusName: TypeAlias = Literal["python-docs", "shakespeare", "file", "zipf"]
ReviewSet: TypeAlias = Literal["imdb", "python-docs"]
Activation: TypeAlias = Literal["tanh", "sigmoid", "relu", "hard_sigmoid", "linear"]
Units: TypeAlias = Annotated[
    int, Field(ge=1, le=16_384, description="width of each recurrent layer")
]
Layers: TypeAlias = Annotated[int, Field(ge=1, le=32, description="number of recurrent layers")]
BatchSize: TypeAlias = Annotated[int, Field(ge=1, le=1_000_000, description="samples per step")]
Rate: TypeAlias = Annotated[float, Field(ge=0, lt=1)]
UpTo10: TypeAlias = Annotated[float, Field(gt=0, le=10)]
Width: TypeAlias = Annotated[int, Field(ge=1, le=16_384)]
Length: TypeAlias = Annotated[int, Field(ge=1, le=100_000)]
Count: TypeAlias = Annotated[int | None, Field(ge=1)]
Bidirectional: TypeAlias = Annotated[
    bool, Field(description="every layer in both directions, concatenated")
]


class _Settings(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class StackSettings(_Settings):
    """A stack of equal recurrent layers, and the batch size."""

    cell: Cell = Field("lstm", description="the recurrent cell")
    units: Units = 128
    layers: Layers = 1
    bidirectional: Bidirectional = False
    activation: Activation = Field(
        "tanh", description="activation of lstm and gru; cuDNN has tanh only; rnn_relu has its own"
    )
    recurrent_activation: Activation = Field(
        "sigmoid", description="activation of the gates of lstm and gru; cuDNN has sigmoid only"
    )
    recurrent_dropout: Rate = Field(
        0.0, description="dropout on the recurrent state; cuDNN has none"
    )
    use_bias: bool = Field(True, description="bias in the recurrent layers; cuDNN needs it")
    dropout: Rate = Field(0.0, description="dropout after every recurrent layer")
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

    learning_rate: UpTo10 = Field(1e-3, description="the optimizer's learning rate")
    epochs: int = Field(1, ge=1, le=100_000, description="timed epochs")
    timed_steps: int = Field(
        30,
        ge=0,
        le=10_000,
        description="synchronised steps after the epochs, for step_ms_median and step_ms_p95",
    )
    target_accuracy: float | None = Field(
        None, gt=0, le=1, description="report the training seconds until val_accuracy reaches this"
    )
    keep: Literal["best"] | None = Field(
        None, description="best: keep the model of each arm's best trial, as a model in MLflow"
    )

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

    dataset: ImageSet = Field("digits", description="digits (8×8, bundled) or mnist (28×28)")
    data_path: str | None = Field(
        None, description="an .npz with x_train, y_train, x_test, y_test instead of the download"
    )
    samples: Count = Field(None, description="number of training images, the first ones")
    validation_samples: Count = Field(
        None, description="number of validation images, the first ones"
    )
    layers: Layers = 2
    dropout: Rate = Field(
        0.2, description="dropout after every layer; half of it after the last recurrent one"
    )
    dense_units: Width = Field(32, description="width of the dense layer")
    learning_rate: UpTo10 = Field(1e-3, description="Adam's initial learning rate")
    decay: float = Field(
        1e-5, ge=0, le=1, description="learning rate at step i is learning_rate / (1 + decay · i)"
    )
    epochs: int = Field(3, ge=1, le=100_000, description="timed epochs")

    of_data_path = ("mnist",)


class SentimentSettings(RecurrentSettings):
    """Classification of reviews as good or bad; the defaults are those of Keras' IMDb example.

    Embedding(20,000 → 128, padding masked) → bidirectional LSTM(64) → Dropout .5 → Dense(1,
    sigmoid); Adam, batch 32.
    """

    dataset: ReviewSet = Field(
        "imdb", description="imdb (downloaded once by Keras) or python-docs (in every Python)"
    )
    data_path: str | None = Field(
        None, description="an .npz of padded reviews instead of the download of imdb"
    )
    samples: Count = Field(None, description="number of training reviews, the first ones")
    validation_samples: Count = Field(
        None, description="number of validation reviews, the first ones"
    )
    vocabulary: int = Field(20_000, ge=4, le=1_000_000, description="number of different words")
    sequence_length: Length = Field(100, description="words per review")
    padding: Literal["right", "left"] = Field(
        "right", description="side of the padding of short reviews; cuDNN supports right only"
    )
    masked: bool = Field(
        True, description="skip the padding; PyTorch's and JAX's cudnn kernels take no mask"
    )
    embedding_units: Width = Field(128, description="width of the embedding")
    units: Units = 64
    bidirectional: Bidirectional = True
    dropout: Rate = Field(0.5, description="dropout after every recurrent layer")

    of_data_path = ("imdb",)

    @property
    def mask(self) -> Mask:
        """The side of the sequences' padding, if it is masked."""
        return self.padding if self.masked else "none"


class TextSettings(RecurrentSettings):
    """A stack between an embedding and a softmax over the vocabulary."""

    dataset: CorpusName = Field(
        "python-docs",
        description="python-docs (in every Python), shakespeare (downloaded once), zipf (synthetic)"
        " or file",
    )
    data_path: str | None = Field(
        None, description="a UTF-8 text for dataset file, or instead of the download of shakespeare"
    )
    vocabulary: int = Field(
        128, ge=2, le=1_000_000, description="number of different tokens, including the unknown one"
    )
    sequence_length: Length = Field(64, description="tokens per sequence")
    embedding_units: Width = Field(64, description="width of the embedding")

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

    tokens: Literal["character", "word"] = Field(
        "character", description="kind of token; zipf has words only"
    )
    samples: int = Field(100_000, ge=1, le=100_000_000, description="number of training windows")
    validation_samples: int = Field(
        10_000, ge=1, le=100_000_000, description="number of validation windows"
    )
    batch_size: BatchSize = 128


class CharRnnSettings(TextSettings):
    """A character-level language model; the defaults are those of MyCaffe's Char-RNN.

    Embedding(128 → 15) → LSTM(512) → LSTM(512) → Dense(softmax) at each of 75 characters, 25
    parallel streams of text, whose states continue from batch to batch; SGD 0.05, momentum 0.9.
    """

    batches: Literal["stateful", "windows"] = Field(
        "stateful",
        description="streams that keep states from batch to batch, or windows that start at zero",
    )
    samples: Count = Field(None, description="number of training sequences, the first ones")
    validation_samples: Count = Field(
        None, description="number of validation sequences, the first ones"
    )
    sequence_length: Length = Field(75, description="characters per sequence")
    embedding_units: Width = Field(15, description="width of the embedding")
    units: Units = 512
    layers: Layers = 2
    dropout: Rate = Field(
        0.3, description="dropout between the recurrent layers (with all: after the last too)"
    )
    dropout_after: Literal["between", "all"] = Field(
        "between", description="between: as MyCaffe's cuDNN version; all: as its Caffe version"
    )
    learning_rate: UpTo10 = Field(0.05, description="SGD's learning rate")
    momentum: Rate = Field(0.9, description="SGD's momentum")
    batch_size: BatchSize = Field(25, description="sequences per step")
    sample_characters: int = Field(
        500, ge=0, le=100_000, description="characters of the text sample; 0: no sample"
    )
    temperature: UpTo10 = Field(0.8, description="temperature of the text sample")

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

    features: Length = Field(123, description="features of the input per step")
    sequence_length: Length = Field(100, description="steps per sequence")
    units: Units = 320
    batch_size: BatchSize = Field(64, description="sequences per step")
    timed_steps: int = Field(
        100,
        ge=2,
        le=1_000_000,
        description="number of timed passes, forward and then with backward",
    )


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
