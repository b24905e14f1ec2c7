import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import ValidationError

from workloads import registry
from workloads.data.sources import DOWNLOADS
from workloads.layer_traits import LayerTraits
from workloads.tasks.image_rows.settings import ImageRowsSettings

ROWS: dict[str, Any] = yaml.safe_load(Path(__file__).with_name("requests.yaml").read_text())
IMAGE_ROWS = registry.find_workload("image_rows")


@pytest.mark.parametrize("workload", registry.BUILT_IN, ids=str)
def test_every_built_in_workload_is_complete(workload: registry.Workload) -> None:
    assert workload.is_built_in and workload.settings_model is not None and workload.metrics
    defaults = workload.settings_model().model_dump()
    assert json.loads(json.dumps(defaults)) == defaults
    assert set(workload.data_settings) <= set(workload.settings_model.model_fields)
    assert all(workload.settings_model.meanings().values())


@pytest.mark.parametrize("name", ["Image_rows", "", "a.b", "a:b:c", "a b:c", ":f", "image_row"])
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


def test_settings_are_filled_in_and_lead_to_traits() -> None:
    settings = {"cell": "gru", "activation": "relu", "learning_rate": 1}
    resolved = IMAGE_ROWS.resolve(settings)
    assert isinstance(resolved, ImageRowsSettings)
    assert (resolved.units, resolved.learning_rate) == (128, 1.0)
    assert IMAGE_ROWS.resolve(resolved.model_dump()) == resolved
    traits = LayerTraits(cell="gru", activation="relu", layers=2, dropout=0.2)
    assert IMAGE_ROWS.traits(settings) == traits


@pytest.mark.parametrize(("workload", "settings", "message"), ROWS["settings"])
def test_wrong_settings_are_explained(
    workload: str, settings: dict[str, Any], message: str
) -> None:
    found_workload = registry.find_workload(workload)
    assert not found_workload.accepts(settings)
    with pytest.raises(ValidationError) as caught:
        found_workload.resolve(settings)
    assert message in registry.explain_invalid_settings(caught.value)


@pytest.mark.parametrize("dataset", ["mnist", "imdb"])
def test_the_digest_of_a_download_is_what_keras_checks(dataset: str) -> None:
    spec = importlib.util.find_spec("keras")
    assert spec is not None and spec.origin is not None
    loader = Path(spec.origin).parent / "src" / "datasets" / f"{dataset}.py"
    assert DOWNLOADS[dataset] in loader.read_text(encoding="utf-8")
