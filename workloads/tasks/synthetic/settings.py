"""The settings of `synthetic`. Imports no framework."""

from pydantic import Field

from workloads.settings import BatchSize, Length, StackSettings, Units


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

    work_settings = ("timed_steps",)
