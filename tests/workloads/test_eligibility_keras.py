"""Eligibility against Keras and the libraries on simulated GPUs, in both directions."""
# ruff: noqa: PLC0415 - frameworks are imported inside the trainer process only

import dataclasses
import importlib
import itertools
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.workloads.shared_trainer import Trainer, result
from tests.workloads.stand_in_gpus import CUDNN, OTHER_KERNEL
from workloads.backends.registry import backends
from workloads.context import Context
from workloads.eligibility import ineligibility_reason
from workloads.implementations import Implementation, parse_implementation
from workloads.layer_traits import SIMPLE_CELLS, LayerTraits
from workloads.protocol import Device

pytestmark = pytest.mark.full
EACH_BACKEND = pytest.mark.parametrize("backend", backends())
REFUSED = "refused"
_REFUSALS = (
    "use_cudnn=True was specified, but cuDNN is not supported",  # Keras
    "only the lstm cell without dropout between layers",  # workloads.models.fused
    "pad on the right",
    "a stateful stack takes no mask",
)
_USUAL = [
    (name, getattr(LayerTraits(), name))
    for name in ("activation", "recurrent_activation", "recurrent_dropout", "use_bias")
]
_CELLS = ("lstm", "gru", *SIMPLE_CELLS)
_PLACES = ("none", "right", "left")
_BOOLEANS = (False, True)

Cases = Iterator[tuple[Implementation, LayerTraits]]


def cudnn_rules(trial: Context) -> dict[str, float]:
    """Compare our rules for `cudnn` with Keras on a simulated GPU; count the outcomes."""
    stride = trial.settings["stride"]
    return _compared(
        (implementation, traits)
        for number, (implementation, traits) in enumerate(_cudnn(trial.implementation.backend))
        if number % stride == 0 or all(getattr(traits, name) == usual for name, usual in _USUAL)
    )


def fused_rules(trial: Context) -> dict[str, float]:
    backend = trial.implementation.backend
    cases = itertools.islice(_fused(backend), 0, None, trial.settings["stride"])
    return _compared(cases, device="cpu" if backend == "torch" else "gpu")


def _cudnn(backend: str) -> Cases:
    xla = ["+xla"] if backend == "tensorflow" else ["+bf16"]  # CudnnRNNV3 casts bfloat16 inside
    names = (*(name for name, _ in _USUAL), "cell", "mask", "bidirectional", "stateful")
    for *values, option in itertools.product(
        ("tanh", "relu"), ("sigmoid", "hard_sigmoid"), (0.0, 0.1), (True, False),
        ("lstm", "gru"), _PLACES, _BOOLEANS, _BOOLEANS, ["", "+unroll", "+fp16", *xla],
    ):  # fmt: skip
        traits: Any = dict(zip(names, values, strict=True))
        yield parse_implementation(f"{backend}/cudnn{option}"), LayerTraits(**traits)


def _fused(backend: str) -> Cases:
    options = ["", "+fp16", *(["+bf16"] if backend != "tensorflow" else [])]
    places = _PLACES if backend != "jax" else _PLACES[:2]  # a lowered program does not show it
    names = ("cell", "mask", "bidirectional", "stateful")
    for *values, (layers, dropout), option in itertools.product(
        _CELLS, places, _BOOLEANS, _BOOLEANS, ((1, 0.3), (2, 0.0), (2, 0.3)), options
    ):
        traits: Any = dict(zip(names, values, strict=True))
        implementation = parse_implementation(f"{backend}/fused{option}")
        yield implementation, LayerTraits(**traits, layers=layers, dropout=dropout)


def _compared(cases: Cases, device: Device = "gpu") -> dict[str, float]:
    counts: Counter[str] = Counter()
    for implementation, traits in cases:
        reason = ineligibility_reason(implementation, traits, device)
        outcome = kernel_of(implementation, traits, device)
        if (outcome == CUDNN) != (reason is None):
            raise AssertionError(f"{implementation} {traits}: theirs: {outcome}; ours: {reason}")
        counts[outcome] += 1
    return {what: float(count) for what, count in counts.items()}


def kernel_of(implementation: Implementation, traits: LayerTraits, device: Device) -> str:
    simulated_gpu = importlib.import_module(
        f"tests.workloads.stand_in_gpus.{implementation.backend}"
    )
    try:
        with simulated_gpu.gpu() if device == "gpu" else nullcontext():
            model = model_of(implementation, traits)
            return str(simulated_gpu.kernel(model, _inputs(traits), implementation))
    except ValueError as error:
        if not any(text in str(error) for text in _REFUSALS):
            raise
        return REFUSED


def model_of(implementation: Implementation, traits: LayerTraits) -> Any:
    import keras

    from workloads.models.layers import recurrent_stack
    from workloads.models.rewriting import switch_layers

    settings: Any = SimpleNamespace(units=4, **dataclasses.asdict(traits))
    with _policy_of(implementation):
        if implementation.kernel == "fused":
            stack = [fused_stack(traits, units=4)]
        else:
            stack = recurrent_stack(settings, return_sequences=False, seed=1)
        masking = [keras.layers.Masking()] if traits.mask != "none" else []
        model = keras.Sequential([keras.Input((3, 5), batch_size=2), *masking, *stack])
    if implementation.kernel == "cudnn":
        switch_layers(model, use_cudnn=True, unroll="unroll" in implementation.options)
    return model


def fused_stack(traits: LayerTraits, *, units: int) -> Any:
    """Return a fused layer of these traits, whether a rewrite would make it or not."""
    from workloads.models.fused_stack import FusedStack

    return FusedStack(
        traits.cell,
        units,
        traits.layers,
        bidirectional=traits.bidirectional,
        dropout=traits.dropout,
        stateful=traits.stateful,
    )


@contextmanager
def _policy_of(implementation: Implementation) -> Iterator[None]:
    import keras

    from workloads.backends.framework import set_dtype_policy

    before = keras.config.dtype_policy()
    set_dtype_policy(implementation)
    try:
        yield
    finally:
        keras.config.set_dtype_policy(before)


def _inputs(traits: LayerTraits) -> Any:
    inputs = np.ones((2, 3, 5), np.float32)
    if traits.mask != "none":
        inputs[0, 0 if traits.mask == "left" else -1] = 0
    return inputs


def ask(trainer: Trainer, probe: str, implementation: str, **settings: int) -> dict[str, float]:
    counts = result(trainer.ask(f"{__name__}:{probe}", implementation, settings=settings))
    return {name: count for name, count in counts.items() if not name.endswith(("_s", "_mib"))}


@EACH_BACKEND
def test_our_rules_on_cudnn_are_those_of_keras(trainer_of: Trainer, backend: str) -> None:
    counts = ask(trainer_of, "cudnn_rules", f"{backend}/portable", stride=61)
    other_outcomes = {
        "tensorflow": {"a failed assertion", "without XLA, silently"},
        "jax": {"a program that JAX cannot make", OTHER_KERNEL},
        "torch": {"a failed backward pass", OTHER_KERNEL},
    }
    assert set(counts) == {CUDNN, REFUSED} | other_outcomes[backend]


@EACH_BACKEND
def test_our_rules_on_the_fused_layer_are_its_own(trainer_of: Trainer, backend: str) -> None:
    counts = ask(trainer_of, "fused_rules", f"{backend}/portable", stride=5)
    other_outcomes = {
        "tensorflow": {"a failed assertion"},
        "jax": {"a program that JAX cannot make"},
    }
    assert set(counts) == {CUDNN, REFUSED} | other_outcomes.get(backend, set())


def written_layers() -> dict[str, Any]:
    """Return layers as authors write them, which Keras' cuDNN path has and no library's call."""
    from keras import constraints, layers

    return {
        "dropout on the inputs": layers.LSTM(4, dropout=0.2),
        "backwards": layers.LSTM(4, go_backwards=True),
        "a constraint": layers.LSTM(4, kernel_constraint=constraints.UnitNorm()),
        "a regularizer of activities": layers.LSTM(4, activity_regularizer="l2"),
        "summed directions": layers.Bidirectional(layers.LSTM(4), merge_mode="sum"),
    }


def demanding_layers() -> dict[str, tuple[Any, ...]]:
    """Return layers with `use_cudnn=True`, some of which no backend runs by cuDNN."""
    from keras import layers

    def lstm(**settings: Any) -> Any:
        return layers.LSTM(4, use_cudnn=True, **settings)

    return {
        "plain": (lstm(),),
        "masked": (layers.Masking(), lstm()),
        "recurrent dropout": (lstm(recurrent_dropout=0.1),),
        "relu": (lstm(activation="relu"),),
        "without bias": (lstm(use_bias=False),),
        "unrolled": (lstm(unroll=True),),
        "dropout": (lstm(dropout=0.1),),
        "gru": (layers.GRU(4, use_cudnn=True),),
        "gru that resets before": (layers.GRU(4, use_cudnn=True, reset_after=False),),
        "two directions": (layers.Bidirectional(lstm()),),
    }


def written_rules(trial: Context) -> dict[str, float]:
    """Expect Keras' cuDNN path for layers that our rules let run on a simulated GPU."""
    import keras

    from workloads.backends.framework import set_dtype_policy
    from workloads.models.rewriting import examine_rewrite, switch_layers

    set_dtype_policy(trial.implementation)  # an earlier trial of the process may have another
    implementation = dataclasses.replace(trial.implementation, kernel="cudnn")
    for name, layer in written_layers().items():
        model = keras.Sequential([keras.Input((3, 5), batch_size=2), layer])
        reason = examine_rewrite(model, implementation, "gpu").reason
        switch_layers(model, use_cudnn=True, unroll=False)
        ran = _kernel_or_refusal(implementation, model, "gpu")
        if reason is not None or ran != CUDNN:
            raise AssertionError(f"{name}: theirs: {ran}; ours: {reason}")
    return {CUDNN: len(written_layers())}


def demand_rules(trial: Context) -> dict[str, float]:
    """Compare our rules for models as written that demand cuDNN with Keras; count the outcomes."""
    import keras

    from workloads.backends.framework import set_dtype_policy
    from workloads.models.rewriting import examine_rewrite

    set_dtype_policy(trial.implementation)  # an earlier trial of the process may have another
    implementation = dataclasses.replace(trial.implementation, kernel="auto")
    device = trial.settings["device"]
    counts = Counter[str]()
    for name, stack in demanding_layers().items():
        model = keras.Sequential([keras.Input((3, 5), batch_size=2), *stack])
        reason = examine_rewrite(model, implementation, device).reason
        ran = _kernel_or_refusal(implementation, model, device)
        if (ran == REFUSED) != (reason is not None):
            raise AssertionError(f"{name} on {device}: theirs: {ran}; ours: {reason}")
        counts[REFUSED if ran == REFUSED else "runs"] += 1
    return dict(counts)


def _kernel_or_refusal(implementation: Implementation, model: Any, device: Device) -> str:
    simulated_gpu = importlib.import_module(
        f"tests.workloads.stand_in_gpus.{implementation.backend}"
    )
    try:
        with simulated_gpu.gpu() if device == "gpu" else nullcontext():
            inputs = _inputs(LayerTraits(mask="right"))
            return str(simulated_gpu.kernel(model, inputs, implementation))
    except ValueError as error:
        if not any(text in str(error) for text in _REFUSALS):
            raise
        return REFUSED


@EACH_BACKEND
def test_layers_that_no_library_call_has_may_run_on_cudnn(
    trainer_of: Trainer, backend: str
) -> None:
    assert ask(trainer_of, "written_rules", f"{backend}/portable") == {CUDNN: 5}


@pytest.mark.parametrize(
    ("backend", "refused_on_cpu", "refused_on_gpu"),
    [("tensorflow", 10, 5), ("jax", 9, 6), ("torch", 3, 3)],
)
def test_what_keras_says_to_a_layer_that_demands_cudnn_is_known_before(
    trainer_of: Trainer, backend: str, refused_on_cpu: int, refused_on_gpu: int
) -> None:
    for device, count in (("cpu", refused_on_cpu), ("gpu", refused_on_gpu)):
        counts = result(
            trainer_of.ask(
                f"{__name__}:demand_rules", f"{backend}/portable", settings={"device": device}
            )
        )
        assert counts[REFUSED] == count, device
