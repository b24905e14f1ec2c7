from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.workloads.shared_trainer import Trainer, failure, result, single_event
from workloads.protocol import Artifact, Event

PROBES = "tests.workloads.models.layer_probes"
BACKENDS = ["tensorflow", "jax", "torch"]
CELLS = ["lstm", "gru", "rnn_tanh", "rnn_relu"]
FLOAT32 = 5e-5  # of the largest value: rounding, summed over steps, layers and directions


def ask(trainer: Trainer, probe: str, implementation: str, **case: Any) -> list[Event]:
    return trainer.ask(f"{PROBES}:{probe}", implementation, settings=case, seed=3)


def read_artifact(events: list[Event]) -> Any:
    """Return the JSON of a probe's artifact."""
    result(events)
    return json.loads(single_event(events, Artifact).text)


def expect_agreement(metrics: dict[str, float]) -> None:
    roles = ["outputs", "inputs", "kernel", "recurrent_kernel", "bias"]
    assert {role: metrics[role] for role in roles if metrics[role] > FLOAT32} == {}
    assert metrics["holds"] == 1
    assert metrics["padding"] == 0


@st.composite
def stacks(draw: st.DrawFn) -> dict[str, Any]:
    steps = draw(st.integers(1, 5))
    batch = draw(st.integers(1, 4))
    lengths = st.lists(st.integers(1, steps), min_size=batch, max_size=batch)
    return {
        "cell": draw(st.sampled_from(CELLS)),
        "inputs": draw(st.integers(1, 4)),
        "units": draw(st.integers(1, 5)),
        "layers": draw(st.integers(1, 3)),
        "bidirectional": draw(st.booleans()),
        "return_sequences": draw(st.booleans()),
        "batch": batch,
        "steps": steps,
        "lengths": draw(st.none() | lengths),
    }


@settings(max_examples=40, deadline=None)
@given(case=stacks(), seed=st.integers(0, 2**31))
def test_torchs_fused_stack_agrees_with_keras_layers(
    torch_trainer: Trainer, case: dict[str, Any], seed: int
) -> None:
    events = torch_trainer.ask(f"{PROBES}:agreement", "torch/fused", settings=case, seed=seed)
    expect_agreement(result(events))


@pytest.mark.parametrize("return_sequences", [False, True])
@pytest.mark.parametrize("lengths", [None, [4, 2, 1]])
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("cell", CELLS)
def test_torchs_fused_stack_agrees_for_every_cell_stacked(
    torch_trainer: Trainer,
    cell: str,
    bidirectional: bool,
    lengths: list[int] | None,
    return_sequences: bool,
) -> None:
    case = {"cell": cell, "layers": 2, "bidirectional": bidirectional, "lengths": lengths}
    metrics = ask(
        torch_trainer, "agreement", "torch/fused", **case, return_sequences=return_sequences
    )
    expect_agreement(result(metrics))


@pytest.mark.parametrize(
    "case",
    [
        {},
        {"layers": 2, "bidirectional": True, "return_sequences": True, "lengths": [4, 2, 1]},
    ],
)
def test_jaxs_fused_stack_agrees_with_jaxs_reference_in_place_of_cudnn(
    jax_trainer: Trainer, case: dict[str, Any]
) -> None:
    expect_agreement(result(ask(jax_trainer, "agreement", "jax/fused", **case)))


@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_the_same_training_gives_the_same_losses(torch_trainer: Trainer, cell: str) -> None:
    losses = result(ask(torch_trainer, "fitted", "torch/fused", cell=cell, layers=2))
    assert losses["asked"] == pytest.approx(losses["portable"], rel=1e-5)


@pytest.mark.parametrize(
    ("backend", "kernel"),
    [("torch", "fused"), ("torch", "portable"), ("jax", "fused"), ("tensorflow", "portable")],
)
def test_a_stateful_stack_continues_from_its_last_state(
    trainer_of: Trainer, backend: str, kernel: str
) -> None:
    metrics = result(ask(trainer_of, "statefulness", f"{backend}/{kernel}", layers=2))
    assert metrics["parts"] < FLOAT32
    assert metrics["again"] == 0  # reset
    assert metrics["kept"] > 0.01  # not reset
    assert metrics["states"] > 0


def test_dropout_between_the_layers_is_drawn_in_training_only(torch_trainer: Trainer) -> None:
    metrics = result(ask(torch_trainer, "dropout", "torch/fused", layers=2, dropout=0.5))
    assert metrics["inference"] == 0
    assert min(metrics["training"], metrics["between"]) > 0.01
    alone = result(ask(torch_trainer, "dropout", "torch/fused", layers=1, dropout=0.5))
    assert alone["between"] == 0  # there is none after the last layer


def test_mixed_precision_keeps_variables_and_states_in_float32(torch_trainer: Trainer) -> None:
    metrics = result(ask(torch_trainer, "mixed", "torch/fused+bf16", layers=2))
    assert 1e-6 < metrics["first"] < 0.02
    assert 1e-6 < metrics["second"] < 0.02


@pytest.mark.parametrize("backend", BACKENDS)
def test_padding_on_the_left_fails(trainer_of: Trainer, backend: str) -> None:
    events = ask(trainer_of, "padded_left", f"{backend}/fused", batch=2)
    if backend == "jax":  # a compiled program cannot raise: NaN ends the trial
        assert result(events)["finite"] == 0
    else:
        assert "expected padding on the right" in failure(events).message


def test_a_stateful_stack_takes_no_mask(torch_trainer: Trainer) -> None:
    events = ask(torch_trainer, "padded_left", "torch/fused", batch=2, stateful=True)
    assert "expected no mask, because the stack is stateful" in failure(events).message


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("bidirectional", [False, True])
def test_tensorflows_graph_holds_one_call_in_our_scope(
    trainer: Trainer, cell: str, bidirectional: bool
) -> None:
    case = {"cell": cell, "layers": 2, "bidirectional": bidirectional, "dropout": 0.25}
    nodes = read_artifact(ask(trainer, "graph", "tensorflow/fused", **case))
    assert [node["type"] for node in nodes] == ["CudnnRNNV3", "CudnnRNNBackpropV3"]
    for node in nodes:
        assert "/fused_stack/" in node.pop("name")
        assert node.pop("type")
        assert node == {
            "rnn_mode": cell,
            "direction": "bidirectional" if bidirectional else "unidirectional",
            "dropout": 0.25,
            "dtype": "float32",
            "seed": 1,
            "time_major": False,
        }


@pytest.mark.parametrize(("option", "dtype"), [("+bf16", "bfloat16"), ("+fp16", "float16")])
def test_tensorflows_call_has_the_requested_precision(
    trainer: Trainer, option: str, dtype: str
) -> None:
    nodes = read_artifact(ask(trainer, "graph", f"tensorflow/fused{option}", layers=2))
    assert {node["dtype"] for node in nodes} == {dtype}


@pytest.mark.parametrize("case", [{"lengths": [4, 2, 1]}, {"stateful": True}])
def test_tensorflow_traces_masks_and_states(trainer: Trainer, case: dict[str, Any]) -> None:
    events = ask(trainer, "graph", "tensorflow/fused", layers=2, return_sequences=True, **case)
    assert len(read_artifact(events)) == 2


@pytest.mark.parametrize("option", ["", "+tf32"])
def test_jaxs_program_holds_one_call_in_our_scope(jax_trainer: Trainer, option: str) -> None:
    nodes = read_artifact(ask(jax_trainer, "program", f"jax/fused{option}", layers=2))
    assert [node["type"] for node in nodes] == ["rnn_fwd", "rnn_bwd"]
    for node in nodes:
        assert node["name"].endswith("/fused_stack")
        assert node["num_layers"] == 2
        assert node["cudnn_allow_tf32"] == (option == "+tf32")


def test_jax_refuses_what_its_call_cannot_do(jax_trainer: Trainer) -> None:
    for case in ({"cell": "gru"}, {"layers": 2, "dropout": 0.5}):
        message = failure(ask(jax_trainer, "program", "jax/fused", **case)).message
        assert "expected the lstm cell without dropout between layers; received" in message


@pytest.mark.parametrize("kernel", ["portable", "fused"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_weights_survive_a_round_trip(trainer_of: Trainer, backend: str, kernel: str) -> None:
    for cell in CELLS:
        case = {"cell": cell, "layers": 2, "bidirectional": cell != "gru"}
        metrics = result(ask(trainer_of, "round_trip", f"{backend}/{kernel}", **case))
        assert metrics["layers"] == (2 if cell == "gru" else 4)
        assert metrics["equal"] == 1


@pytest.mark.parametrize("kernel", ["portable", "fused"])
def test_weights_of_another_size_are_refused(torch_trainer: Trainer, kernel: str) -> None:
    for other in ({"units": 5}, {"layers": 2}, {"cell": "gru"}):
        message = failure(
            ask(torch_trainer, "write_other_sizes", f"torch/{kernel}", model={}, stack=other)
        ).message
        assert "stack: expected layers of the shapes [((3, 16), (4, 16), (16,))]" in message
    without_bias = {"model": {}, "stack": {"use_bias": False}}
    message = failure(
        ask(torch_trainer, "write_other_sizes", "torch/portable", **without_bias)
    ).message
    assert "received [((3, 16), (4, 16), None)]" in message


def test_layers_and_dropouts_have_fixed_names_and_seeds(trainer: Trainer) -> None:
    case = {"layers": 2, "bidirectional": True, "dropout": 0.25}
    built = read_artifact(ask(trainer, "structure", "tensorflow/portable+unroll", **case))
    assert built["names"] == ["recurrent_0", "dropout_0", "recurrent_1"]
    directions = [layer for layer in built["layers"] if layer["type"] == "LSTM"]
    assert [layer["name"] for layer in directions] == [
        "forward_recurrent_0",
        "backward_recurrent_0",
        "forward_recurrent_1",
        "backward_recurrent_1",
    ]
    assert [layer["return_sequences"] for layer in directions] == [True, True, False, False]
    assert all(layer["unroll"] for layer in directions)
    seeds = [layer["seed"] for layer in built["layers"]]
    assert len(set(seeds)) == len(seeds)


@pytest.mark.parametrize("cell", ["lstm", "gru"])
@pytest.mark.parametrize("kernel", ["portable", "cudnn"])
def test_use_cudnn_is_explicit_and_survives_the_second_direction(
    trainer: Trainer, cell: str, kernel: str
) -> None:
    case = {"cell": cell, "bidirectional": True, "stateful": True}
    built = read_artifact(ask(trainer, "structure", f"tensorflow/{kernel}", **case))
    assert [layer["use_cudnn"] for layer in built["layers"]] == [kernel == "cudnn"] * 2
    assert [layer["stateful"] for layer in built["layers"]] == [True] * 2


def test_activations_are_those_of_the_cell_and_of_relu(trainer: Trainer) -> None:
    for cell, option, activation in [
        ("lstm", "", "tanh"),
        ("gru", "+relu", "relu"),
        ("rnn_tanh", "", "tanh"),
        ("rnn_relu", "", "relu"),
    ]:
        built = read_artifact(ask(trainer, "structure", f"tensorflow/portable{option}", cell=cell))
        assert [layer["activation"] for layer in built["layers"]] == [activation]


def test_a_simple_cell_is_not_quietly_run_by_another_kernel(trainer: Trainer) -> None:
    refused = failure(ask(trainer, "structure", "tensorflow/cudnn", cell="rnn_tanh"))
    assert refused.kind == "not_possible"
    assert "expected one that Keras has for rnn_tanh; received 'cudnn'" in refused.message


def test_a_stateful_stack_needs_a_known_batch_size(torch_trainer: Trainer) -> None:
    message = failure(ask(torch_trainer, "open_batch", "torch/fused", stateful=True)).message
    assert "expected a known number of features, and of samples if it is stateful" in message
