"""A metric is one entry and the line that computes it."""

from pathlib import Path

import pytest

from tests.adding.copied_project import CopiedProject, copy_project
from tests.workloads.shared_trainer import expect_package

GRAD_NORM_ENTRY = """\
    Metric(
        name="grad_norm",
        description="Norm of the gradient of the loss after the last epoch.",
        label="gradient norm",
        better="less",
        workload=TRAINING,
        reported_in=("measures",),
    ),
"""

GRAD_NORM = """\
def _gradient_norm(run: TrainingRun) -> dict[str, float]:
    computed = gradients_of_loss(run)
    if computed is None:
        return {}
    return {"grad_norm": float(np.linalg.norm([np.linalg.norm(g) for g in computed.gradients]))}
"""

STEPS_ENTRY = """\
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


def test_a_metric_is_one_entry_and_the_line_that_computes_it(tmp_path: Path) -> None:
    project = copy_project(tmp_path)
    add_metrics(project)
    derived = "DERIVED: Mapping[str, Callable[[FinishedTrial], float | None]] = {"
    project.insert_after("orchestrator/analysis/measures.py", derived, STEPS_PER_S)
    observed = project.observe("tests.adding.observe_metric")
    assert Path(observed["place"]).is_relative_to(tmp_path)
    assert observed["objectives"] == ["grad_norm"]
    assert observed["schema"] == "Norm of the gradient of the loss after the last epoch."
    assert observed["pages"] == ["mlflow.md"]
    assert observed["direction"] == "minimize"
    assert {"gradient norm", "steps (1/s)"} <= {*observed["titles"]}
    assert "gradient norm" in observed["report"]
    assert observed["steps_per_s"] == 250
    assert observed["rows"] == [0.25]
    assert observed["possible"] == 1


def add_metrics(project: CopiedProject) -> None:
    registry = "METRICS: tuple[Metric, ...] = ("
    project.insert_after("workloads/metrics.py", registry, GRAD_NORM_ENTRY + STEPS_ENTRY)


@pytest.mark.full
def test_a_metric_of_gradients_is_equal_for_implementations_of_one_model(tmp_path: Path) -> None:
    expect_package("torch")
    project = copy_project(tmp_path)
    add_metrics(project)
    training = "workloads/measuring/training.py"
    project.insert_after(
        training,
        "from workloads.measuring.step_times import step_metrics",
        "from workloads.models.gradients import gradients_of_loss\n",
    )
    project.insert_after(training, "_LATENCY_CALLS = 20", f"\n\n{GRAD_NORM}")
    project.replace_line(training, "    return metrics", "    return metrics | _gradient_norm(run)")
    portable, fused = project.observe("tests.adding.observe_grad_norm")
    assert portable > 1e-3
    assert fused == pytest.approx(portable, rel=1e-3)
