"""The view of a sweep in MLflow's UI: its runs, columns and charts.

The UI keeps views in the browser. Its "share" button stores one as a tag of the experiment, and a
link with the tag's key opens it in any other browser; this module writes such a tag. Names are
those of MLflow 3.17 (mlflow/server/js/src/experiment-tracking: ExperimentPageUIState,
ExperimentPageSearchFacetsState, runs-charts.types). Another UI shows its default view.
"""

import base64
import zlib
from collections.abc import Iterator
from typing import Any

from orchestrator.core.trial import canonical
from orchestrator.storage.tracking.records import Manifest

_TAG = "mlflow.sharedViewState."
_FIGURES = ("val_accuracy", "step_ms", "train_s", "compile_s", "energy_j", "cost_usd")
_PER_EPOCH = ("val_accuracy", "val_loss", "epoch_s")
_RUN_NAME, _CREATED = "attributes.`Run Name`", "attributes.`Created`"
_RUN_NAME_PX, _FIGURE_PX = 430, 100
_MOST_CURVES = 100
_ARMS, _EPOCHS, _SIZES = (
    "Arms: means over the configs tried",
    "Epochs: means over the configs tried",
    "Sizes",
)


def view_tags(parent_id: str, manifest: Manifest) -> dict[str, str]:
    """Return the experiment's tag with a sweep's view: its trials, grouped by arm."""
    metrics = list(dict.fromkeys((*manifest.objectives, *_FIGURES)))
    params = sorted(manifest.identity.search.get("space", {}))
    columns = [
        *(f"metrics.`{name}`" for name in metrics),
        *(f"params.`{name}`" for name in params),
        "tags.`outcome`",
    ]
    state = {
        "searchFilter": f"tags.`mlflow.parentRunId` = '{parent_id}'",
        "orderByKey": "attributes.start_time",
        "orderByAsc": True,
        "selectedColumns": columns,
        "columnOrder": [_RUN_NAME, _CREATED, *columns],
        "columnWidths": {
            _RUN_NAME: _RUN_NAME_PX,
            **dict.fromkeys([_CREATED, *columns], _FIGURE_PX),
        },
        "groupBy": {
            "aggregateFunction": "average",
            "groupByKeys": [{"mode": "tag", "groupByData": "arm"}],
        },
        "runsHiddenMode": "SHOW_ALL",
        "compareRunSections": [
            {"uuid": name, "name": name, "display": True, "isReordered": True, "deleted": False}
            for name in (_ARMS, _EPOCHS, _SIZES)
        ],
        "compareRunCharts": list(_charts(metrics, params, list(manifest.objectives))),
    }
    # MLflow takes 5,000 characters of an experiment's tag; its UI packs them in this way too.
    packed = base64.b64encode(zlib.compress(canonical(state).encode(), 9)).decode()
    return {f"{_TAG}{_key(parent_id)}": f"deflate;{packed}"}


def view_link(address: str, experiment_id: str, parent_id: str) -> str:
    """Return the link to a sweep's table in the UI at `address`."""
    page = f"{address.rstrip('/')}/#/experiments/{experiment_id}/runs"
    # Without the type the UI opens the view that the browser had last, at first that of traces.
    return f"{page}?viewStateShareKey={_key(parent_id)}&workflowType=machine_learning"


def _key(parent_id: str) -> str:
    return f"rnnsweep-{parent_id[:12]}"


def _charts(metrics: list[str], params: list[str], objectives: list[str]) -> Iterator[Any]:
    for name in metrics:
        yield _card("BAR", _ARMS, name) | {"metricKey": name}
    for name in _PER_EPOCH:
        line = {"metricKey": name, "selectedMetricKeys": [name], "xAxisKey": "step"}
        yield _card("LINE", _EPOCHS, name) | line
    for param in params:
        for metric in objectives:
            yield _card("SCATTER", _SIZES, f"{param} {metric}") | {
                "xaxis": {"key": param, "type": "PARAM"},
                "yaxis": {"key": metric, "type": "METRIC"},
            }


def _card(kind: str, section: str, name: str) -> dict[str, Any]:
    return {
        "uuid": f"{kind} {name}",
        "type": kind,
        "metricSectionId": section,
        "runsCountToCompare": _MOST_CURVES,
        "deleted": False,
        "isGenerated": False,
    }
