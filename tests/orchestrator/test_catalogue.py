"""What the catalogue says of settings and metrics."""

from __future__ import annotations

from orchestrator import catalogue


def test_what_decides_the_data_is_not_called_searchable() -> None:
    text = catalogue.as_text(())
    assert "settings (all may be searched but dataset, data_path: these decide the data)" in text
    (workload,) = catalogue.as_json(())["workloads"]
    fixed = [each["name"] for each in workload["settings"] if not each["searchable"]]
    assert fixed == ["dataset", "data_path"]
    assert "val_accuracy" in workload["metrics"]
