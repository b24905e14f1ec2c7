from __future__ import annotations

import hashlib
import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from workloads import registry
from workloads.data.sources import DOWNLOADS, digits_file
from workloads.eligibility import LayerTraits
from workloads.failures import DataError

IMAGE_ROWS = registry.find_workload("image_rows")


def test_the_registry_imports_no_framework_and_is_quick() -> None:
    code = (
        "import json, sys; from workloads import registry, backend;"
        "registry.find_workload('image_rows').data_digest({});"
        "print(json.dumps([name for name in sys.modules]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {name.partition(".")[0] for name in json.loads(done.stdout)}
    assert not loaded & {"tensorflow", "keras", "jax", "torch", "sklearn", "numpy"}


def test_every_built_in_workload_is_complete() -> None:
    for workload in registry.built_in_workloads():
        assert workload.is_built_in
        assert workload.settings_model is not None
        assert json.loads(json.dumps(workload.resolve({}))) == workload.resolve({})
        assert workload.metrics
        assert set(workload.data_settings) <= set(workload.settings_model.model_fields)
        for name, field in workload.settings_model.model_fields.items():
            assert field.description, f"{workload.name}.{name} has no description"


@pytest.mark.parametrize("name", ["image_row", "Image_rows", "", "a.b", "a:b:c", "a b:c", ":f"])
def test_an_unknown_workload_is_refused(name: str) -> None:
    with pytest.raises(registry.UnknownWorkload, match=r"one of image_rows.*, or package"):
        registry.find_workload(name)


def test_the_nearest_workload_is_suggested() -> None:
    with pytest.raises(registry.UnknownWorkload, match="did you mean 'image_rows'"):
        registry.find_workload("image_row")


def test_a_users_workload_takes_anything() -> None:
    own = registry.find_workload("my_package.models:train")
    assert (own.entry, own.is_built_in) == ("my_package.models:train", False)
    assert own.resolve({"anything": [1, 2]}) == {"anything": [1, 2]}
    assert own.data_digest({}) is None
    assert own.traits({"cell": "gru"}) == LayerTraits()


def test_settings_are_filled_in_and_lead_to_traits() -> None:
    settings = IMAGE_ROWS.resolve({"cell": "gru", "activation": "relu", "learning_rate": 1})
    assert settings["units"] == 128
    assert IMAGE_ROWS.resolve(settings) == settings
    traits = LayerTraits(cell="gru", activation="relu", layers=2, dropout=0.2)
    assert IMAGE_ROWS.traits(settings) == traits


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"unit": 3}, "settings.unit: no such setting (did you mean 'units'?); known: cell,"),
        ({"units": 0}, "settings.units: Input should be greater than or equal to 1; received 0"),
        ({"units": "64"}, "settings.units: Input should be a valid integer; received '64'"),
        ({"units": True}, "settings.units: Input should be a valid integer; received True"),
        ({"dropout": 1.0}, "settings.dropout: Input should be less than 1; received 1.0"),
        ({"cell": "rnn"}, "settings.cell: Input should be 'lstm', 'gru', 'rnn_tanh' or"),
        ({"data_path": "x.npz"}, "settings: data_path is read for dataset mnist only"),
    ],
)
def test_wrong_settings_are_explained(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError) as caught:
        IMAGE_ROWS.resolve(settings)
    assert message in registry.explain_invalid_settings(caught.value, IMAGE_ROWS.settings_model)


def test_all_faults_are_explained_at_once() -> None:
    with pytest.raises(ValidationError) as caught:
        IMAGE_ROWS.resolve({"units": 0, "layers": 0, "colour": 1})
    assert (
        registry.explain_invalid_settings(caught.value, IMAGE_ROWS.settings_model).count(
            "settings."
        )
        == 3
    )


def test_data_digests_come_from_the_source(tmp_path: Path) -> None:
    assert IMAGE_ROWS.data_digest({}) == hashlib.sha256(digits_file().read_bytes()).hexdigest()
    assert IMAGE_ROWS.data_digest({"dataset": "mnist"}) == DOWNLOADS["mnist"]
    path = tmp_path / "images.npz"
    path.write_bytes(b"images")
    own = IMAGE_ROWS.data_digest({"dataset": "mnist", "data_path": str(path)})
    assert own == hashlib.sha256(b"images").hexdigest()


def test_the_settings_that_decide_the_data_are_named() -> None:
    assert IMAGE_ROWS.data_settings == ("dataset", "data_path")
    assert IMAGE_ROWS.accepts({"dataset": "mnist", "data_path": "x.npz"})
    assert not IMAGE_ROWS.accepts({"data_path": "x.npz"})


def test_missing_data_is_explained(tmp_path: Path) -> None:
    path = tmp_path / "missing.npz"
    with pytest.raises(DataError, match=r"missing\.npz.*No such file.*settings\.data_path"):
        IMAGE_ROWS.data_digest({"dataset": "mnist", "data_path": str(path)})


def test_the_digest_of_mnist_is_what_keras_checks() -> None:
    spec = importlib.util.find_spec("keras")
    assert spec is not None and spec.origin is not None
    loader = Path(spec.origin).parent / "src" / "datasets" / "mnist.py"
    assert DOWNLOADS["mnist"] in loader.read_text(encoding="utf-8")


def test_a_language_model_reads_forward_only() -> None:
    with pytest.raises(ValidationError, match="the backward direction would read the character"):
        registry.find_workload("char_rnn").resolve({"bidirectional": True})
