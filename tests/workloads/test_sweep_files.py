"""Every file of sweeps/: its small command is valid, and an arm of it runs in tiny sizes."""

import re
import shlex
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from orchestrator.cluster.connection import this_machine
from orchestrator.core.trial import Block, make_trial
from orchestrator.scheduling.suggester import Suggester
from orchestrator.spec import load_spec
from tests.building.sessions import SampleSession
from tests.building.trials import IDENTITY
from tests.orchestrator.cli.typed_commands import type_command
from tests.workloads.shared_trainer import Trainer, result, single_event
from workloads.protocol import Finish, KernelProof, Slice, encode_message
from workloads.registry import find_workload

pytestmark = pytest.mark.full

ROOT = Path(__file__).resolve().parents[2]
SWEEPS = {path.stem: path for path in sorted((ROOT / "sweeps").glob("*.yaml"))}
for other in ("prices", "own_workload", "own_model"):  # no sweep; not of a built-in workload
    del SWEEPS[other]

SMALL = {
    "samples": 64,
    "validation_samples": 32,
    "epochs": 1,
    "timed_steps": 2,
    "sequence_length": 6,
    "sample_characters": 20,
}
"""Settings that make trials seconds long, for the workloads that have them."""
TINY: dict[str, list[str]] = {
    "appleyard_lstm": ["search.configs=[{units: 4, features: 4, batch_size: 2}]"],
    "braun_lstm": [
        "search.configs=[{bidirectional: true, layers: 2, batch_size: 2, sequence_length: 4}]",
        "settings.units=4",
    ],
    "cells": ["search.space.units=[4]"],
    "char_rnn_shakespeare": [
        "settings.samples=50",
        "settings.validation_samples=25",
        "search.configs=[{units: 4}]",
    ],
    "cluster": ["search.configs=1", "search.space={units: [4]}"],
    "cpu_backends": ["settings.validation_samples=64", "search.space.units=[4]"],
    "crossover": [
        "measure.slice_s=0.02",
        "search.configs=[{units: 4, layers: 2, batch_size: 2, sequence_length: 4}]",
    ],
    "deepbench_rnn": ["search.configs=[{units: 4, features: 4, batch_size: 2}]"],
    "gru_or_lstm": ["search.configs=1", "search.space={units: [4]}"],
    "imdb_bilstm": ["search.configs=[{units: 4}]"],
    "mnist_rows": ["search.configs=[{units: 4}]"],
    "next_token_612235": [
        "settings.samples=256",
        "settings.validation_samples=128",
        "search.configs=[{units: 4}]",
    ],
    "pruning": ["search.configs=1", "search.space={units: [4]}"],
    "quickstart": ["search.configs=1", "search.space={units: [4]}"],
    "timing": ["measure={mode: timing, slice_s: 0.02}", "search.space={units: [4, 5, 6, 7, 8, 9]}"],
}
"""The overrides that make a sweep tiny, by its name."""


def tiny_overrides(name: str, small: Sequence[str]) -> list[str]:
    spec = load_spec(SWEEPS[name], small)
    model = find_workload(spec.workload_name).settings_model
    assert model is not None
    searched = {*spec.search.space, *(key for config in spec.search.listed for key in config)}
    names = SMALL.keys() & model.model_fields.keys() - searched
    is_whole = spec.measure.mode == "full"
    return [*(f"settings.{key}={SMALL[key]}" for key in names if is_whole), *TINY.get(name, ())]


@pytest.mark.parametrize("name", SWEEPS)
def test_an_arm_of_a_file_runs_small(
    name: str,
    trainer_for: Callable[[str], Trainer],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("RNNSWEEP_HOME", str(tmp_path / "home"))
    lines = re.findall(r"^#   rnnsweep run (.*)$", SWEEPS[name].read_text(), re.MULTILINE)
    words = shlex.split(lines[0] if lines else f"sweeps/{name}.yaml")
    assert type_command(capfd, "plan", *words)[0] == 0
    small = words[2::2]
    spec = load_spec(SWEEPS[name], [*small, *tiny_overrides(name, small)])
    text = yaml.safe_dump(spec.model_dump(mode="json", exclude_unset=True))
    sample = SampleSession(tmp_path / "sample", text, this_machine())
    config = Suggester(sample.spec.search, 0).suggest(0)
    assert config is not None and sample.plan.arms
    # The tests of implementations run all kernels: one arm is enough, of another backend each time.
    by_backend = {arm.implementation.partition("/")[0]: arm for arm in sample.plan.arms}
    arm = list(by_backend.values())[list(SWEEPS).index(name) % len(by_backend)]
    trial = make_trial(IDENTITY, Block(0, config), arm, 0)
    request = replace(sample.session.request(trial), data_digest=None)
    trainer = trainer_for(arm.implementation)
    for line in (request, *((Slice(), Finish()) if request.measure == "timing" else ())):
        trainer.send(encode_message(line))
    events = trainer.events_of_trial()
    result(events)
    proof = single_event(events, KernelProof)
    assert proof.ran == proof.asked
