"""MLflow's autologging, which a user's file may switch on: trials record nothing by it.

It would store runs and models of its own for each trial, and its work would be timed.
"""

import sys
from typing import Any


def switch_off_autologging() -> None:
    """Switch autologging off where the user's code has switched it on."""
    mlflow: Any = sys.modules.get("mlflow")
    integrations: Any = sys.modules.get("mlflow.utils.autologging_utils")
    if mlflow is None or integrations is None:
        return
    mlflow.autolog(disable=True, silent=True)
    for config in integrations.AUTOLOGGING_INTEGRATIONS.values():
        config["disable"] = True  # `mlflow.keras.autolog()` counts more than the call above
