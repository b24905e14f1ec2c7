"""Print a sweep's runs on a tracking server as JSON: `python -m tests.cluster.runs URI SWEEP`.

It uses MLflow's REST interface only, independently of the product's code and of MLflow's client,
whose import takes seconds.
"""

from __future__ import annotations

import json
import sys
import urllib.parse
import urllib.request
from typing import Any


def runs(uri: str, sweep: str) -> list[dict[str, Any]]:
    """Return all runs of a sweep's experiment: id, status and tags."""
    query = urllib.parse.urlencode({"experiment_name": sweep})
    answer = _ask(f"{uri}/api/2.0/mlflow/experiments/get-by-name?{query}")
    ids = [answer["experiment"]["experiment_id"]]
    token, all_runs = "", []
    while True:
        body = {"experiment_ids": ids, "max_results": 1000, "page_token": token}
        page = _ask(f"{uri}/api/2.0/mlflow/runs/search", body)
        all_runs += page.get("runs", [])
        if not (token := page.get("next_page_token", "")):
            break
    return [
        {
            "id": run["info"]["run_id"],
            "status": run["info"]["status"],
            "tags": {tag["key"]: tag["value"] for tag in run["data"].get("tags", [])},
        }
        for run in all_runs
    ]


def _ask(url: str, body: dict[str, Any] | None = None) -> Any:
    data = json.dumps(body).encode() if body is not None else None
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


if __name__ == "__main__":
    print(json.dumps(runs(*sys.argv[1:])))
