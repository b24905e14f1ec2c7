"""Initial weights: the distributions of Keras' initializers, equal on every backend."""

from typing import Any

import pytest

from orchestrator.analysis.arms.mathematics import fingerprint_difference
from tests.workloads.shared_trainer import Trainer, failure, result, single_event
from workloads.backends.registry import backends
from workloads.protocol import Event, Fingerprint
from workloads.registry import own_model_name

EACH_BACKEND = pytest.mark.parametrize("backend", backends())
PROBES = "tests.workloads.models.weight_probes"
LAYERS = "every kind of layer"


def start(trainer: Trainer, backend: str, model: str, seed: int = 3, **own: Any) -> list[Event]:
    settings = {"model": model, **own}
    implementation = f"{backend}/portable"
    return trainer.ask(f"{PROBES}:start_of_model", implementation, settings=settings, seed=seed)


def test_each_rule_has_the_distribution_of_keras_own_draw(trainer: Trainer) -> None:
    events = trainer.ask(f"{PROBES}:compare_distributions", "tensorflow/portable", seed=3)
    distances = {name: value for name, value in result(events).items() if name[-2:] != "_s"}
    distances.pop("peak_rss_mib", None)
    assert len(distances) > 12
    for name, distance in distances.items():
        assert distance < (1e-5 if name.startswith("Orthogonal") else 1), name


def test_every_initializer_of_keras_is_constant_or_has_a_rule(trainer: Trainer) -> None:
    events = trainer.ask(f"{PROBES}:rules_of_keras", "tensorflow/portable")
    known = {name: value for name, value in result(events).items() if name[0].isupper()}
    assert len(known) > 12
    constant = {name for name, value in known.items() if value == 0}
    assert constant == {"Constant", "Identity", "Ones", "STFT", "Zeros"}
    assert all(value >= 0 for value in known.values())


@EACH_BACKEND
def test_all_arrays_are_drawn_and_those_that_the_author_set_are_kept(
    trainer_of: Trainer, backend: str
) -> None:
    metrics = result(start(trainer_of, backend, LAYERS))
    assert metrics["kept"] == 1
    assert metrics["open_forget_gates"] == 1
    drawn = {"shared": 1, "conv": 1, "lstm": 6, "attention": 4, "gru": 3, "nested": 1, "scale": 2}
    assert metrics["changed"] == sum(drawn.values())


@pytest.mark.parametrize("model", [LAYERS, "unbuilt chain", "class of its own"])
def test_arrays_are_equal_on_every_backend_and_follow_the_seed(
    trainer: Trainer, jax_trainer: Trainer, torch_trainer: Trainer, model: str
) -> None:
    first = result(start(trainer, "tensorflow", model))
    for process, backend in ((jax_trainer, "jax"), (torch_trainer, "torch")):
        metrics = result(start(process, backend, model))
        assert (metrics["digest"], metrics["arrays"]) == (first["digest"], first["arrays"])
    assert result(start(trainer, "tensorflow", model, seed=4))["digest"] != first["digest"]


@pytest.mark.parametrize("build", ["build", "build_loop", "build_unbuilt"])
def test_layers_whose_parts_are_built_in_their_first_call_start_equally(
    trainer: Trainer, jax_trainer: Trainer, torch_trainer: Trainer, build: str
) -> None:
    late = "tests.workloads.examples.late_layers"
    name = own_model_name(f"{late}:{build}", f"{late}:load")
    settings = {"units": 4, "batch_size": 8, "timed_steps": 2}

    def fingerprint(process: Trainer, backend: str) -> Fingerprint:
        events = process.ask(name, f"{backend}/auto", settings=settings, fingerprint=True)
        assert "val_loss" in result(events)
        return single_event(events, Fingerprint)

    first = fingerprint(trainer, "tensorflow")
    for process, backend in ((jax_trainer, "jax"), (torch_trainer, "torch")):
        difference = fingerprint_difference(fingerprint(process, backend), first)
        assert difference.outputs_share < 1e-4, backend
        assert difference.gradients is not None and difference.gradients < 1e-3, backend


def test_own_weights_stay_as_they_were_built(trainer: Trainer) -> None:
    metrics = result(start(trainer, "tensorflow", LAYERS, weights="own"))
    assert (metrics["changed"], metrics["kept"]) == (0, 1)


def test_an_initializer_of_the_authors_own_is_refused_with_the_way_out(trainer: Trainer) -> None:
    failed = failure(start(trainer, "tensorflow", "own initializers"))
    assert failed.kind == "bad_request"
    assert "unknown/kernel" in failed.message and "fill" in failed.message
    assert "settings.weights" in failed.message
    assert result(start(trainer, "tensorflow", "own initializers", weights="own"))["arrays"] == 4
