"""A metric is one entry and the line that computes it; a column of the trial table is one entry."""

from pathlib import Path

from tests.adding.copied_project import copy_project

METRICS = """\
    Metric(
        name="grad_norm",
        description="Norm of the gradient in the last step.",
        label="gradient norm",
        better="less",
        workload=TRAINING,
        reported_in=("measures",),
    ),
    Metric(
        name="steps_per_s",
        description="Training steps per second.",
        label="steps",
        unit="1/s",
        better="more",
        measured_by="report",
        reported_in=("expenses",),
        is_objective=False,
    ),
"""

STEPS_PER_S = """\
    "steps_per_s": lambda trial: 1_000 / trial.metrics["step_ms"],
"""

COLUMN = """\
    TrialColumn(
        "epochs_run",
        "whole",
        lambda trial: len(trial.epochs),
        "Epochs that the trial ran.",
    ),
"""


def test_a_metric_is_one_entry_and_the_line_that_computes_it(tmp_path: Path) -> None:
    project = copy_project(tmp_path)
    registry = "METRICS: tuple[Metric, ...] = ("
    project.insert_after("workloads/metrics.py", registry, METRICS)
    derived = "DERIVED: Mapping[str, Callable[[FinishedTrial], float | None]] = {"
    project.insert_after("orchestrator/analysis/measures.py", derived, STEPS_PER_S)
    observed = project.observe("tests.adding.observe_metric")
    assert Path(observed["place"]).is_relative_to(tmp_path)
    assert observed["objectives"] == ["grad_norm"]
    assert observed["schema"] == "Norm of the gradient in the last step."
    assert {*observed["pages"]} == {"mlflow.md", "workloads.md"}
    assert observed["direction"] == "minimize"
    assert {"gradient norm", "steps (1/s)"} <= {*observed["titles"]}
    assert "gradient norm" in observed["report"]
    assert observed["steps_per_s"] == 250
    assert observed["rows"] == [0.25]
    assert observed["possible"] == 1


def test_a_column_of_the_trial_table_is_one_entry(tmp_path: Path) -> None:
    project = copy_project(tmp_path)
    columns = "COLUMNS: tuple[TrialColumn, ...] = ("
    project.insert_after("orchestrator/core/trial_columns.py", columns, COLUMN)
    observed = project.observe("tests.adding.observe_column")
    assert observed == {"pages": ["mlflow.md"], "csv": True, "tag": "0", "rows": [0]}
