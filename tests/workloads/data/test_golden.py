"""The data sets of the built-in workloads never change: digests of their arrays."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import pytest

from workloads.data.samples import Samples
from workloads.registry import find_workload
from workloads.tasks import training

DIGITS = "09f66e6debdee2cd2b5ae59e0d6abbb73fc2b0e0185d2e1957e9ebb51e23aa22"
ZIPF = "f79401ac4701352545d559155be8bd326ac1abb0d897080fbfbf08a70073c7c6"
PYTHON_DOCS = "f784d6fb39bd"  # that of one version of Python: others have another text
DOCS_LEFT = {"padding": "left", "vocabulary": 500, "samples": 77}
WINDOWS = {"batches": "windows", "samples": 500}
ZIPF_50 = {"dataset": "zipf", "vocabulary": 50}
ZIPF_WINDOWS = {"dataset": "zipf", "batches": "windows"}
WORDS = {"tokens": "word", "vocabulary": 300, "samples": 20_000, "validation_samples": 100}


@pytest.mark.parametrize(
    ("workload", "settings", "digest", "train", "validation"),
    [
        ("image_rows", {}, DIGITS, "4bfd907a7b2b2263", "0adcb28d35b8e5f9"),
        ("next_token", ZIPF_50, ZIPF, "b743a6dff5d2c978", "108d011a7c2300eb"),
        ("char_rnn", ZIPF_WINDOWS, ZIPF, "59383f6ba95801e0", "4a27524d788eacf6"),
        ("sentiment", {}, PYTHON_DOCS, "bf0cd364513c9ba6", "523ea07798463cd7"),
        ("sentiment", DOCS_LEFT, PYTHON_DOCS, "240c12de75ce5c2a", "fb5f6775b9f3c7c5"),
        ("next_token", {}, PYTHON_DOCS, "3b78d8c5a877836e", "5aafc1132fbcd23d"),
        ("next_token", WORDS, PYTHON_DOCS, "81244d6d40d5f56c", "766e70b4557dc616"),
        ("char_rnn", {}, PYTHON_DOCS, "52a770a005c39584", "957371dce686e505"),
        ("char_rnn", WINDOWS, PYTHON_DOCS, "eed7cb96a2adfa27", "ec3c3a32c03748c4"),
    ],
)  # fmt: skip
def test_the_arrays_are_the_published_ones(
    workload: str,
    settings: dict[str, Any],
    digest: str,
    train: str,
    validation: str,
) -> None:
    if workload == "sentiment":
        settings = {"dataset": "python-docs", **settings}
    definition = find_workload(workload)
    assert definition.settings_model is not None
    data = getattr(training, f"load_{workload}")(definition.settings_model(**settings))
    assert data.digest == definition.data_digest(settings)
    if digest == PYTHON_DOCS and not data.digest.startswith(digest):
        pytest.skip("this Python has another documentation")
    assert data.digest.startswith(digest)
    assert (_digest(data.train), _digest(data.validation)) == (train, validation)


def _digest(samples: Samples) -> str:
    state = hashlib.sha256()
    for array in (samples.inputs, samples.targets):
        state.update(str((array.dtype, array.shape)).encode())
        state.update(np.ascontiguousarray(array).tobytes())
    return state.hexdigest()[:16]
