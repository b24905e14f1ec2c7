import importlib.util
import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from pydantic import ValidationError

from workloads import registry
from workloads.data.sources import DOWNLOADS
from workloads.layer_traits import LayerTraits
from workloads.tasks.image_rows.settings import ImageRowsSettings
from workloads.tasks.own_model.settings import OwnModelSettings

IMAGE_ROWS = registry.find_workload("image_rows")


@pytest.mark.parametrize("workload", registry.BUILT_IN, ids=str)
def test_every_built_in_workload_is_complete(workload: registry.Workload) -> None:
    assert workload.is_built_in and workload.settings_model is not None and workload.metrics
    defaults = workload.settings_model().model_dump()
    assert json.loads(json.dumps(defaults)) == defaults
    assert set(workload.data_settings) <= set(workload.settings_model.model_fields)
    assert all(workload.settings_model.meanings().values())


@pytest.mark.parametrize("name", ["a:b:c", "image_row"])
def test_an_unknown_workload_is_refused(name: str) -> None:
    with pytest.raises(registry.UnknownWorkload, match=r"one of image_rows.*, or package") as why:
        registry.find_workload(name)
    assert name != "image_row" or "did you mean 'image_rows'" in str(why.value)


def test_a_users_workload_takes_anything() -> None:
    own = registry.find_workload("my_package.models:train")
    assert (own.entry, own.is_built_in) == ("my_package.models:train", False)
    assert own.resolve({"anything": [1, 2]}) is None
    assert own.accepts({"anything": [1, 2]})
    assert own.data_digest({}) is None
    assert own.traits({"cell": "gru"}) == LayerTraits()


def test_an_own_model_is_found_by_the_names_of_its_functions() -> None:
    for data, callbacks in [("my.data:load", None), (None, None), (None, "forecast:callbacks")]:
        name = registry.own_model_name("forecast:build", data, callbacks)
        own = registry.find_workload(name)
        assert (own.name, own.model_entry, own.data_entry) == (name, "forecast:build", data)
        assert (own.callbacks_entry, len(own.entries)) == (callbacks, 2 if data or callbacks else 1)
        assert registry.has_random_data(name) == (data is None)
        assert own.is_own_model and not own.is_built_in and not own.names_own_implementations
    for name in ("forecast:build with", "forecast with a:b", "a:b with c:d with e:f with g:h"):
        with pytest.raises(registry.UnknownWorkload):
            registry.find_workload(name)


def test_an_own_model_takes_any_setting_and_checks_those_that_are_ours() -> None:
    own = registry.find_workload("forecast:build with random data")
    resolved = own.resolve({"window": 120, "names": ["a", "b"], "epochs": 3})
    assert isinstance(resolved, OwnModelSettings)
    given = resolved.as_user_settings()
    assert (given["window"], given["names"], given["epochs"]) == (120, ["a", "b"], 3)
    assert given["batch_size"] == 32
    weighted = own.resolve({"class_weight": {0: 1.0, 1: 2.5}})
    assert isinstance(weighted, OwnModelSettings)
    assert weighted.plan().class_weight == {0: 1.0, 1: 2.5}
    for wrong in ({"epochs": 0}, {"batch_size": "many"}, {"class_weight": {"cat": 1.0}}):
        assert not own.accepts(wrong)


def test_settings_are_filled_in_and_lead_to_traits() -> None:
    settings = {"cell": "gru", "activation": "relu", "learning_rate": 1}
    resolved = IMAGE_ROWS.resolve(settings)
    assert isinstance(resolved, ImageRowsSettings)
    assert (resolved.units, resolved.learning_rate) == (128, 1.0)
    assert IMAGE_ROWS.resolve(resolved.model_dump()) == resolved
    traits = LayerTraits(cell="gru", activation="relu", layers=2, dropout=0.2)
    assert IMAGE_ROWS.traits(settings) == traits


class WrongSettings(NamedTuple):
    """Settings that a workload refuses, and a part of the message."""

    name: str
    workload: str
    settings: dict[str, Any]
    message: str


WRONG_SETTINGS = [
    WrongSettings(
        name="three wrong settings at once",
        workload="image_rows",
        settings={"units": 0, "layers": 0, "colour": 1},
        message=(
            "settings.units: Input should be greater than or equal to 1; received 0; "
            "settings.layers: Input should be greater than or equal to 1; received 0; "
            "settings.colour: Extra inputs are not permitted; received 1"
        ),
    ),
    WrongSettings(
        name="a number as text",
        workload="image_rows",
        settings={"units": "64"},
        message="settings.units: Input should be a valid integer; rec",
    ),
    WrongSettings(
        name="a path for a dataset without files",
        workload="image_rows",
        settings={"data_path": "x"},
        message="data_path is only for dataset mnist",
    ),
    WrongSettings(
        name="a file without a path",
        workload="next_token",
        settings={"dataset": "file"},
        message="dataset file needs data_path",
    ),
    WrongSettings(
        name="an activation that the cell fixes",
        workload="next_token",
        settings={"cell": "rnn_tanh", "activation": "relu"},
        message="has a fixed activation",
    ),
    WrongSettings(
        name="two directions of a stateful reader",
        workload="char_rnn",
        settings={"bidirectional": True},
        message="the backward direction would read the character",
    ),
]


@pytest.mark.parametrize("case", WRONG_SETTINGS, ids=lambda case: case.name)
def test_wrong_settings_are_explained(case: WrongSettings) -> None:
    found_workload = registry.find_workload(case.workload)
    assert not found_workload.accepts(case.settings)
    with pytest.raises(ValidationError) as caught:
        found_workload.resolve(case.settings)
    assert case.message in registry.explain_invalid_settings(caught.value)


@pytest.mark.parametrize("dataset", ["mnist", "imdb"])
def test_the_digest_of_a_download_is_what_keras_checks(dataset: str) -> None:
    spec = importlib.util.find_spec("keras")
    assert spec is not None and spec.origin is not None
    loader = Path(spec.origin).parent / "src" / "datasets" / f"{dataset}.py"
    assert DOWNLOADS[dataset] in loader.read_text(encoding="utf-8")
