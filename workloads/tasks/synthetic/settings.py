"""The settings of `synthetic`. Imports no framework."""

from pydantic import Field

from workloads.settings import BatchSize, Length, SequenceLength, StackSettings, Units


class SyntheticSettings(StackSettings):
    """Recurrent layers alone, on random input: no data, no head, no optimizer.

    Input is uniform in [-1, 1] as in Braun 2018. The defaults are the first row of that paper.
    """

    features: Length = Field(123, description="features of the input per step")
    sequence_length: SequenceLength = 100
    units: Units = 320
    batch_size: BatchSize = 64
    timed_steps: int = Field(
        100,
        ge=2,
        le=1_000_000,
        description="timed passes: first forward alone, then forward and backward",
    )

    work_settings = ("timed_steps",)
