"""Settings of `synthetic`."""

from __future__ import annotations

from pydantic import Field

from workloads.settings.recurrent import StackSettings


class SyntheticSettings(StackSettings):
    """Recurrent layers alone, on random input: no data, no head, no optimizer.

    Input is uniform in [-1, 1] as in Braun 2018. The defaults are the first row of that paper.
    """

    features: int = Field(123, ge=1, le=100_000, description="features of the input per step")
    sequence_length: int = Field(100, ge=1, le=100_000, description="steps per sequence")
    units: int = Field(320, ge=1, le=16_384, description="width of each recurrent layer")
    batch_size: int = Field(64, ge=1, le=1_000_000, description="sequences per step")
    timed_steps: int = Field(
        100,
        ge=2,
        le=1_000_000,
        description="number of timed passes, forward and then with backward",
    )
