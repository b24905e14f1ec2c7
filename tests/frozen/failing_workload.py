"""A workload of the frozen stores: it trains nothing, and fails as its kernel is named."""

from workloads.context import Context


def train(trial: Context) -> dict[str, float]:
    kernel = trial.implementation.kernel
    if kernel == "fails":
        raise RuntimeError("a failure, to be kept")
    trial.kernel(asked=kernel, ran=kernel, evidence="its own report")
    accuracy = int(trial.settings["units"]) / 100
    for index in range(2):
        trial.epoch(index, 0.001, validate_s=0.001, loss=1.0 - accuracy, val_accuracy=accuracy / 2)
    return {"loss": 1.0 - accuracy, "val_accuracy": accuracy, "step_ms": 1.0 + len(kernel)}
