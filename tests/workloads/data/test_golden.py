"""The data sets of the built-in workloads never change: digests of their arrays."""

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from workloads.data.samples import Samples
from workloads.registry import find_workload
from workloads.tasks import training

ROWS = yaml.safe_load(Path(__file__).with_name("golden.yaml").read_text())


@pytest.mark.parametrize(("workload", "settings", "digest", "train", "validation"), ROWS)
def test_the_arrays_are_the_published_ones(
    workload: str, settings: dict[str, Any], digest: str, train: str, validation: str
) -> None:
    if workload == "sentiment":
        settings = {"dataset": "python-docs", **settings}
    definition = find_workload(workload)
    assert definition.settings_model is not None
    data = getattr(training, f"load_{workload}")(definition.settings_model(**settings))
    assert data.digest == definition.data_digest(settings)
    if data.name == "python-docs" and not data.digest.startswith(digest):
        pytest.skip("this Python has another documentation")
    assert data.digest.startswith(digest)
    assert (_digest(data.train), _digest(data.validation)) == (train, validation)


def _digest(samples: Samples) -> str:
    state = hashlib.sha256()
    for array in (samples.inputs, samples.targets):
        state.update(str((array.dtype, array.shape)).encode())
        state.update(np.ascontiguousarray(array).tobytes())
    return state.hexdigest()[:16]
