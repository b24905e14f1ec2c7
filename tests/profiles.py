"""How much the random tests do: enough to find a mistake here, more where nobody waits."""

import os

IN_CI = os.environ.get("RNNSWEEP_TEST_ALL") == "1"
"""Whether this run is CI's: nothing may be skipped, and random tests take more draws."""


def draws(here: int, in_ci: int) -> int:
    return in_ci if IN_CI else here
