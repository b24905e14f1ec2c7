"""What the file of a user's workload shows without being imported."""

from pathlib import Path

import pytest

from workloads.own_code import code_in
from workloads.script_scan import autologging_calls, callbacks_of_fit

SCRIPT = """
import keras, mlflow
from keras.callbacks import TensorBoard
mlflow.keras.autolog()
stop = keras.callbacks.EarlyStopping(patience=3)
rates = [keras.callbacks.ReduceLROnPlateau(), stop]
def build(settings): return keras.Sequential()
def train(more=()):
    mlflow.autolog()
    build({}).fit(1, 2, callbacks=[TensorBoard("logs"), *more, stop])
if __name__ == "__main__":
    model = build({})
    model.fit(1, 2, callbacks=rates)
    model.fit(1, 2, callbacks=[])
    model.fit(1, 2)
"""


def test_callbacks_and_autologging_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("scanned.py").write_text(SCRIPT)
    with code_in(tmp_path, before_current=True):
        found = [*callbacks_of_fit("scanned:build with random data")]
        assert found == [
            ("scanned.py:10", ("TensorBoard", "*more", "EarlyStopping")),
            ("scanned.py:13", ("ReduceLROnPlateau", "EarlyStopping")),
        ]
        assert [*autologging_calls("scanned:build with random data")] == [
            "scanned.py:4",
            "scanned.py:9",
        ]
        assert not [*callbacks_of_fit("image_rows")]
