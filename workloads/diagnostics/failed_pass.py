"""Which pass of a Keras training step an error comes from."""

import traceback

_STEP = "train_step"
_PASSES = {
    "compute_loss": "the loss",
    "compute_metrics": "the metrics",
    "gradient": "the backward pass",  # of TensorFlow's tape
    "backward": "the backward pass",  # of a tensor of PyTorch
    "backward_pass": "the backward pass",  # of JAX
    "apply_gradients": "the step of the optimizer",
    "apply": "the step of the optimizer",
    "stateless_apply": "the step of the optimizer",
}
"""Passes by the function of Keras or of its backend that begins them."""


def failed_pass(error: BaseException) -> str | None:
    """Return the pass of a training step that raised an error, such as `the backward pass`.

    None for an error outside of a training step.
    """
    names = [call.name for call in traceback.extract_tb(error.__traceback__)]
    if _STEP not in names:
        return None
    inside = names[names.index(_STEP) + 1 :]
    return next((_PASSES[name] for name in inside if name in _PASSES), "the forward pass")
