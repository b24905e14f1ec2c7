"""Every file of sweeps/ runs by the small command in its comment, with even smaller sizes."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from orchestrator.spec import load
from tests.integration.sweeping import ROOT, Home
from tests.workloads.shared_trainer import expect_package
from workloads.implementations import parse_implementation

pytestmark = pytest.mark.full

SWEEPS = {path.stem: path for path in sorted((ROOT / "sweeps").glob("*.yaml"))}
del SWEEPS["prices"]  # a price table, not a sweep

TINY: Mapping[str, Sequence[str]] = {
    "appleyard_lstm": (
        *("settings.timed_steps=2", "settings.sequence_length=4"),
        "search.configs=[{units: 4, features: 4, batch_size: 2}]",
    ),
    "braun_lstm": (
        "settings.timed_steps=2",
        "search.configs=[{layers: 2, bidirectional: true, batch_size: 2, sequence_length: 4}]",
        "settings.units=4",
    ),
    "cells": (
        *("settings.samples=64", "settings.validation_samples=32", "settings.epochs=1"),
        *("settings.sequence_length=6", "search.space.units=[4]", "settings.timed_steps=2"),
    ),
    "char_rnn_shakespeare": (
        *("settings.samples=50", "settings.validation_samples=25", "settings.timed_steps=2"),
        *("settings.sequence_length=6", "settings.sample_characters=20"),
        "search.configs=[{units: 4}]",
    ),
    "cpu_backends": (
        *("settings.samples=64", "settings.validation_samples=64", "settings.timed_steps=2"),
        *("settings.sequence_length=6", "settings.sample_characters=20", "settings.epochs=1"),
        "search.space.units=[4]",
    ),
    "crossover": (
        "measure={mode: timing, interval: 0.9, slices: [6, 6], slice_s: 0.02}",
        "search.configs=[{units: 4, layers: 2, batch_size: 2, sequence_length: 4}]",
    ),
    "deepbench_rnn": (
        *("settings.timed_steps=2", "settings.sequence_length=4"),
        "search.configs=[{units: 4, features: 4, batch_size: 2}]",
    ),
    "imdb_bilstm": (
        *("settings.samples=64", "settings.validation_samples=32", "settings.epochs=1"),
        *("settings.sequence_length=6", "settings.timed_steps=2", "search.configs=[{units: 4}]"),
    ),
    "mnist_rows": (
        *("settings.samples=64", "settings.validation_samples=32", "settings.epochs=1"),
        *("settings.timed_steps=2", "search.configs=[{units: 4}]"),
    ),
    "next_token_612235": (
        *("settings.samples=256", "settings.validation_samples=128", "settings.timed_steps=2"),
        *("settings.sequence_length=6", "search.configs=[{units: 4}]"),
    ),
    "timing": (
        *("blocks=null", "search.configs=1", "search.space={units: [4]}"),
        *("measure={mode: timing, interval: 0.9, slices: [6, 6], slice_s: 0.02}",),
        "arms.implementations=[tensorflow/portable, tensorflow/portable+unroll]",
    ),
}
"""Overrides that make each sweep seconds long. quickstart is the demo, tested on its own."""


def small_line(path: Path) -> list[str]:
    """Return the arguments of the small command in the file's comment."""
    (line,) = re.findall(r"^#   rnnsweep (run sweeps/.*)$", path.read_text(), re.MULTILINE)
    return shlex.split(line)


def test_every_file_has_its_small_form() -> None:
    assert set(TINY) == set(SWEEPS) - {"quickstart"}


@pytest.mark.parametrize("name", sorted(TINY))
def test_it_runs_small(joining: Home, name: str) -> None:
    arguments = small_line(SWEEPS[name])
    settings = arguments[3::2]
    spec = load(SWEEPS[name], (*settings, *TINY[name]))
    for implementation in spec.arms.implementations:
        expect_package(parse_implementation(implementation).backend)
    overrides = [word for setting in TINY[name] for word in ("--set", setting)]
    done = joining.run(*arguments, *overrides, timeout_s=280).expect(0)
    assert spec.name in done.out
    finished = joining.finished(spec.name)
    assert finished
    for record in finished:
        outcome = record["outcome"]
        assert outcome["status"] == "complete", outcome["failure"]
        assert outcome["kernel"]["ran"] == outcome["kernel"]["asked"]
