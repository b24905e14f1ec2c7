"""Every file of sweeps/ runs by the small command in its comment, with even smaller sizes."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from orchestrator.cli.options import set_words
from orchestrator.spec import load
from tests.integration.sweeping import ROOT, Home
from tests.workloads.shared_trainer import expect_package
from workloads.implementations import parse_implementation
from workloads.registry import find_workload

pytestmark = pytest.mark.full

SWEEPS = {path.stem: path for path in sorted((ROOT / "sweeps").glob("*.yaml"))}
del SWEEPS["prices"]  # a price table, not a sweep

SMALL = {
    **{"samples": 64, "validation_samples": 32, "epochs": 1, "timed_steps": 2},
    **{"sequence_length": 6, "sample_characters": 20},
}
"""Settings that make trials seconds long, for the workloads that have them."""
SLICED = "measure={mode: timing, interval: 0.9, slices: [6, 6], slice_s: 0.02}"
UNITS = "search.configs=[{units: 4}]"
SQUARE = "search.configs=[{units: 4, features: 4, batch_size: 2}]"
TINY: Mapping[str, Sequence[str]] = {
    "appleyard_lstm": (SQUARE,),
    "braun_lstm": (
        "search.configs=[{layers: 2, bidirectional: true, batch_size: 2, sequence_length: 4}]",
        "settings.units=4",
    ),
    "cells": ("search.space.units=[4]",),
    "char_rnn_shakespeare": ("settings.samples=50", "settings.validation_samples=25", UNITS),
    "cpu_backends": ("settings.validation_samples=64", "search.space.units=[4]"),
    "crossover": (
        SLICED,
        "search.configs=[{units: 4, layers: 2, batch_size: 2, sequence_length: 4}]",
    ),
    "deepbench_rnn": (SQUARE,),
    "gru_or_lstm": ("search.configs=1", "search.space={units: [4]}"),
    "imdb_bilstm": (UNITS,),
    "mnist_rows": (UNITS,),
    "next_token_612235": ("settings.samples=256", "settings.validation_samples=128", UNITS),
    "timing": (
        *("blocks=null", "search.configs=1", "search.space={units: [4]}", SLICED),
        "arms.implementations=[tensorflow/portable, tensorflow/portable+unroll]",
    ),
}
"""Overrides of each sweep, after these. quickstart is the demo, tested on its own."""


def small_line(path: Path) -> list[str]:
    """Return the arguments of the small command in the file's comment."""
    (line,) = re.findall(r"^#   rnnsweep (run sweeps/.*)$", path.read_text(), re.MULTILINE)
    return shlex.split(line)


def tiny_overrides(name: str, small: Sequence[str]) -> list[str]:
    """Return the overrides of a sweep after those of its small command."""
    spec = load(SWEEPS[name], small)
    model = find_workload(spec.workload).settings_model
    assert model is not None
    searched = {*spec.search.space, *(key for config in spec.search.listed for key in config)}
    names = SMALL.keys() & model.model_fields.keys() - searched
    is_whole = spec.measure.mode == "full"
    return [*(f"settings.{key}={SMALL[key]}" for key in names if is_whole), *TINY[name]]


def test_every_file_has_its_small_form() -> None:
    assert set(TINY) == set(SWEEPS) - {"quickstart"}


@pytest.mark.parametrize("name", sorted(TINY))
def test_it_runs_small(joining: Home, name: str) -> None:
    arguments = small_line(SWEEPS[name])
    tiny = tiny_overrides(name, arguments[3::2])
    spec = load(SWEEPS[name], (*arguments[3::2], *tiny))
    for implementation in spec.arms.implementations:
        expect_package(parse_implementation(implementation).backend)
    done = joining.run(*arguments, *set_words(tiny), timeout_s=280).expect(0)
    assert spec.name in done.out
    finished = joining.finished(spec.name)
    assert finished
    for record in finished:
        outcome = record["outcome"]
        assert outcome["status"] == "complete", outcome["failure"]
        assert outcome["kernel"]["ran"] == outcome["kernel"]["asked"]
