"""A model whose file switches on MLflow's autologging."""

from typing import Any

import mlflow

from tests.workloads.examples import own_models

mlflow.keras.autolog(log_models=False)


def build(settings: dict[str, Any]) -> Any:
    mlflow.autolog()
    return own_models.build(settings)


def load(settings: dict[str, Any]) -> Any:
    return own_models.load(settings)
