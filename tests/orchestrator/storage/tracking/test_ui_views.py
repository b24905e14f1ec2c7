"""The view of a sweep in MLflow's UI: what is in the tag, and that the link names it.

That the real UI shows it so is tested in tests/browser.
"""

from __future__ import annotations

import base64
import json
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

from mlflow import MlflowClient

from orchestrator.cli.ui import view_of
from orchestrator.storage.tracking.reader import list_sweeps, read_sweep
from orchestrator.storage.tracking.ui_views import view_link, view_tags
from tests.orchestrator.sample_sweeps import IDENTITY, address, finished, opening
from tests.orchestrator.storage.tracking.recording import record


def test_the_view_shows_the_sweeps_trials_by_arm(home: Path) -> None:
    record(home, finished(0))
    read = read_sweep(address(home), "quickstart")
    (listed,) = list_sweeps(address(home))
    assert (listed.experiment_id, listed.run_id) == (read.experiment_id, read.run_id)
    link = view_link("http://ui:1/", read.experiment_id, read.run_id)
    place, _, key = link.partition("?viewStateShareKey=")
    assert place == f"http://ui:1/#/experiments/{read.experiment_id}/runs"
    tags = MlflowClient(tracking_uri=address(home)).get_experiment(read.experiment_id).tags
    view = unpacked(tags[f"mlflow.sharedViewState.{key}"])
    assert view["searchFilter"] == f"tags.`mlflow.parentRunId` = '{read.run_id}'"
    assert view["groupBy"]["groupByKeys"] == [{"mode": "tag", "groupByData": "arm"}]
    assert {"metrics.`val_accuracy`", "params.`units`"} <= set(view["selectedColumns"])
    sections = {card["uuid"] for card in view["compareRunSections"]}
    cards = view["compareRunCharts"]
    assert {card["metricSectionId"] for card in cards} == sections
    assert len({card["uuid"] for card in cards}) == len(cards)


def test_a_large_space_fits_what_mlflow_takes(home: Path) -> None:
    space = {f"a_setting_of_some_length_{index}": {"low": 1, "high": 2} for index in range(60)}
    large = opening(home, replace(IDENTITY, search={"space": space}))
    (tag,) = view_tags("0" * 32, large).values()
    assert len(tag) < 5000  # MLflow 3.17: MAX_EXPERIMENT_TAG_VAL_LENGTH
    assert len(unpacked(tag)["compareRunCharts"]) > 60


def test_each_kind_of_store_has_a_link(home: Path) -> None:
    record(home)
    read = read_sweep(address(home), "quickstart")
    local = view_of(read, address(home))
    assert "while `rnnsweep ui` runs: http://127.0.0.1:5000/#/experiments/1/runs?" in local
    served = view_of(read, "https://me:secret@host/mlflow")
    assert served.startswith("the trials in MLflow: https://me:***@host/mlflow/#/experiments/1/")


def unpacked(tag: str) -> dict[str, Any]:
    return json.loads(zlib.decompress(base64.b64decode(tag.removeprefix("deflate;"))))
