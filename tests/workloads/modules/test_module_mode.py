"""The mode of a PyTorch module, in which its author may have taken the name of the method."""
# ruff: noqa: PLC0415 - frameworks are imported inside the trainer process only

from tests.workloads.shared_trainer import Trainer, result
from workloads.context import Context
from workloads.modules.own_module import set_mode
from workloads.registry import own_model_name


def change_modes(trial: Context) -> dict[str, float]:
    """Return which parts of two modules are in training mode after both changes."""
    from torch import nn

    from tests.workloads.examples import unusual_modules as examples

    found = dict[str, float]()
    for kind in (examples.WithTrainMethod, examples.Frozen):
        module = kind(nn.LSTM, 4)
        set_mode(module, training=False)
        parts = {"all": module, "lstm": module.recurrent, "head": module.head}
        found |= {f"{kind.__name__} {n} off": float(p.training) for n, p in parts.items()}
        set_mode(module, training=True)
        found |= {f"{kind.__name__} {n} on": float(p.training) for n, p in parts.items()}
    return found


def test_the_mode_is_set_by_a_method_of_the_author_only_if_that_takes_a_mode(
    torch_trainer: Trainer,
) -> None:
    modes = result(torch_trainer.ask(f"{__name__}:change_modes", "torch/auto"))
    for name in ("WithTrainMethod", "Frozen"):
        assert [modes[f"{name} {part} off"] for part in ("all", "lstm", "head")] == [0, 0, 0]
        is_head_on = name != "Frozen"
        parts = [modes[f"{name} {part} on"] for part in ("all", "lstm", "head")]
        assert parts == [1, 1, is_head_on]


def test_a_module_with_a_method_train_of_its_own_is_trained(torch_trainer: Trainer) -> None:
    module = "tests.workloads.examples.unusual_modules"
    name = own_model_name(f"{module}:build_with_train_method", f"{module}:load")
    settings = {"units": 4, "batch_size": 8, "timed_steps": 2}
    metrics = result(torch_trainer.ask(name, "torch/auto", settings=settings, fingerprint=True))
    assert {"val_loss", "step_ms", "predict_sample_ms"} <= metrics.keys()
