"""`rnnsweep.convert` in a user's own program: no Ray, no MLflow, and models that can be saved."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.lacking import skip_here
from tests.workloads.shared_trainer import Trainer, result
from workloads.eligibility import is_installed

CONVERT = """
import sys
sys.modules.update(ray=None, mlflow=None)  # importing them fails
import keras
import numpy as np
import rnnsweep

inputs = np.random.default_rng(0).normal(size=(4, 9, 6)).astype("float32")
model = keras.Sequential([
    keras.Input((9, 6)),
    keras.layers.LSTM(80, return_sequences=True, kernel_regularizer="l2"),
    keras.layers.LSTM(80, kernel_regularizer="l2"),
    keras.layers.Dense(1),
])
model.compile(optimizer="adam", loss="mse")
for wrong, reason in {
    "torch/fussed": "fused",
    "tensorflow/portable": "KERAS_BACKEND",
    "torch/fused+bf16": "set_dtype_policy",
    "torch/cudnn": "NVIDIA GPU",
}.items():
    try:
        rnnsweep.convert(model, wrong)
    except ValueError as error:
        assert reason in str(error), error
    else:
        raise AssertionError(wrong)
before = model.predict(inputs, verbose=0)
converted = rnnsweep.convert(model, "torch/fused")
assert np.max(np.abs(converted.predict(inputs, verbose=0) - before)) < 1e-5
assert len(converted.layers) == 2
converted.fit(inputs, np.zeros((4, 1)), verbose=0)
converted.save("model.keras")
np.savez("predicted.npz", inputs=inputs, outputs=converted.predict(inputs, verbose=0))
"""

LOAD = """
import keras
import numpy as np
from rnnsweep import convert

saved = np.load("predicted.npz")
model = keras.models.load_model("model.keras")
assert model.compiled
assert np.array_equal(model.predict(saved["inputs"], verbose=0), saved["outputs"])
"""


@pytest.mark.parametrize(
    ("options", "is_xla", "is_eager"),
    [("", 0, 0), ("+xla", 1, 0), ("+eager", 0, 1)],
    ids=["graph", "xla", "eager"],
)
def test_a_converted_model_is_compiled_as_its_implementation_asks(
    trainer: Trainer, options: str, is_xla: float, is_eager: float
) -> None:
    probe = "tests.workloads.models.layer_probes:converted"
    converted = result(trainer.ask(probe, f"tensorflow/portable{options}"))
    assert converted["difference"] < 1e-6
    assert converted["is_portable"]
    assert (converted["is_xla"], converted["is_eager"]) == (is_xla, is_eager)


def test_a_converted_model_computes_the_same_and_can_be_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not is_installed("torch"):
        skip_here("needs PyTorch")
    monkeypatch.setenv("KERAS_BACKEND", "torch")
    for program in (CONVERT, LOAD):
        ended = subprocess.run(
            [sys.executable, "-c", program],
            check=False,
            cwd=tmp_path,
            capture_output=True,
            text=True,
        )
        assert ended.returncode == 0, ended.stderr
