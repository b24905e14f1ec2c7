"""The view of a sweep in MLflow's UI: its trials, columns, charts and colours.

MLflow's "share" button stores a view as a tag of the experiment, and a link with the tag's key
opens it in any browser; this module writes such a tag. A plain link can carry a filter and an order
only: it shows no metric, no arm and no chart of them. The names in the view are MLflow 3.17's own
(mlflow/server/js/src/experiment-tracking: ExperimentPageUIState, runs-charts.types). The table is
grouped by arm, and charts have a dot or a line per trial: MLflow's mean of a group has no text.
"""

import base64
import json
import urllib.parse
import zlib
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

from orchestrator.core.arms import Arm
from orchestrator.core.selectors import known_implementation
from orchestrator.core.trial import canonical
from orchestrator.storage.tracking.mlflow import mlflow_names
from orchestrator.storage.tracking.stored_records import Manifest
from workloads.backends.registry import is_compiled
from workloads.implementations import parse_implementation
from workloads.metrics import find_metric

_TAG = "mlflow.sharedViewState."
_CHARTS = {"compareRunsMode": "CHART"}
_VIEW = json.loads(Path(__file__).with_name("ui_view.json").read_text(encoding="utf-8"))
"""The parts of the view that all sweeps share. The hues are the hues of the report's charts."""


def view_tags(parent_id: str, manifest: Manifest, settings: Collection[str]) -> dict[str, str]:
    """Return the experiment's tag with a sweep's view; `settings` are named in trials' configs."""
    params = sorted({*manifest.identity.search.get("space", {}), *settings})
    charts = list(_chart_cards(manifest, params))
    used = {chart["metricSectionId"] for chart in charts}
    columns = [
        *(f"metrics.`{name}`" for name in dict.fromkeys((*manifest.objectives, *_VIEW["columns"]))),
        *(f"params.`{name}`" for name in params),
        "tags.`outcome`",
    ]
    state = {
        **_VIEW["state"],
        "searchFilter": mlflow_names.trial_runs_filter(parent_id),
        "selectedColumns": columns,
        "columnOrder": [*_VIEW["widths_px"], *columns],
        "columnWidths": {**_VIEW["widths_px"], **dict.fromkeys(columns, _VIEW["width_px"])},
        "compareRunSections": [
            {"uuid": key, "isReordered": True, **section}
            for key, section in _VIEW["sections"].items()
            if key in used or not section["display"]
        ],
        "compareRunCharts": charts,
    }
    # Some servers take 5,000 characters of an experiment's tag; its UI packs them in this way too.
    packed = base64.b64encode(zlib.compress(canonical(state).encode(), 9)).decode()
    return {f"{_TAG}{_storage_key(parent_id)}": f"deflate;{packed}"}


def view_link(address: str, experiment_id: str, parent_id: str, **shown: str) -> str:
    """Return the link to a sweep's view in the UI at `address`."""
    shown["viewStateShareKey"] = _storage_key(parent_id)
    return _link(f"{address}/#/experiments/{experiment_id}/runs", shown)


def sweeps_link(address: str, experiment_ids: Sequence[str]) -> str:
    """Return the link to charts that compare all generations of these sweeps."""
    shown = {
        "experiments": canonical(sorted(experiment_ids)),
        "searchFilter": mlflow_names.SWEEP_RUNS,
    }
    return _link(f"{address}/#/compare-experiments/s", {**shown, **_CHARTS})


def markdown_links(experiment_id: str, parent_id: str) -> str:
    """Return links to a sweep's views for a description, in Markdown. They work on any server."""
    trials = view_link(".", experiment_id, parent_id)
    charts = view_link(".", experiment_id, parent_id, **_CHARTS)
    generations = sweeps_link(".", [experiment_id])
    return f"[Trials]({trials}) · [charts]({charts}) · [all generations]({generations})"


def colour_tags(arm_index: int | None) -> dict[str, str]:
    """Return the tag that gives the trials of an arm one colour in all charts."""
    if arm_index is None:
        return {}
    hues = _VIEW["hues"]
    return {"mlflow.runColor": hues[arm_index % len(hues)]}


def _link(page: str, shown: dict[str, str]) -> str:
    # Without the type the UI opens the view that the browser had last, at first the view of traces.
    query = {**shown, "workflowType": "machine_learning"}
    return f"{page}?{urllib.parse.urlencode(query, quote_via=urllib.parse.quote)}"


def _storage_key(parent_id: str) -> str:
    return f"rnnsweep-{parent_id[:12]}"


def _chart_cards(manifest: Manifest, params: list[str]) -> Iterator[dict[str, Any]]:
    """Yield the charts of a sweep's trials as MLflow's page describes them."""
    objectives = list(manifest.objectives)
    factors = [name for name in _factors(manifest.arms) if name not in params]
    result = next((name for name in objectives if find_metric(name).is_result), "val_accuracy")
    sides = {
        "xaxis": {"key": "train_s", "type": "METRIC"},
        "yaxis": {"key": result, "type": "METRIC"},
    }
    yield _card("SCATTER", "trade_off", f"train_s {result}", **sides)
    for section, axis_names in (("sizes", params), ("arms", factors)):
        for name in axis_names:
            for metric in dict.fromkeys((*objectives, *_VIEW["outcomes"])):
                axes = {"xaxis": (name, "PARAM"), "yaxis": (metric, "METRIC")}
                parts = {axis: {"key": key, "type": kind} for axis, (key, kind) in axes.items()}
                yield _card("SCATTER", section, f"{name} {metric}", **parts)
    lines = {"selectedParams": [*factors, *params], "selectedMetrics": objectives}
    yield _card("PARALLEL", "settings", "", **lines)
    for name in _VIEW["per_epoch"]:
        line = {"metricKey": name, "selectedMetricKeys": [name], "xAxisKey": "step"}
        yield _card("LINE", "epochs", name, **line)


def _factors(arms: Sequence[Arm]) -> list[str]:
    """Return the params in which arms differ: parts of their implementations, and settings."""
    parts = [parse_implementation(arm.implementation) for arm in arms]
    known = [known_implementation(arm) for arm in arms]
    values: dict[str, set[object]] = {
        "backend": {part.backend for part in parts},
        "kernel": {part.kernel for part in parts},
        "jit": {is_compiled(part) if part else None for part in known},
        "precision": {part.precision if part else None for part in known},
    }
    differing = [name for name, of_arms in values.items() if len(of_arms) > 1]
    return differing + sorted({name for arm in arms for name in arm.settings})


def _card(kind: str, section: str, name: str, **parts: object) -> dict[str, Any]:
    identity = {"uuid": f"{kind} {name}", "metricSectionId": section}
    return {**_VIEW["chart"], **identity, "type": kind, **parts}
