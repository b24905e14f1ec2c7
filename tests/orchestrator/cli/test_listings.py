"""`rnnsweep plan`, `hardware` and `workloads`, as they are typed: they run nothing."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema

from orchestrator import hardware
from orchestrator.cluster import connection
from orchestrator.diagnostics.peaks import Peak, Rate, store_peaks, versions
from orchestrator.hardware import classify
from tests.orchestrator.cli.typed_commands import Run
from tests.orchestrator.diagnostics.test_hardware_listing import SCHEMA
from tests.orchestrator.sample_specs import spec_text


def test_this_machine_is_shown_with_the_peaks_that_are_kept(run: Run, home: Path) -> None:
    assert run("hardware")[0] == 0
    assert not home.exists()
    profile = hardware.probe()
    (cpu, *_) = classify(connection.this_machine())
    of = versions(profile, "tensorflow", "cpu")
    rate = Rate(2.12e11, 1.9e11, 2.2e11)
    at = "2026-11-21T16:20:00Z"
    store_peaks(home, [Peak(cpu.id, "tensorflow", "float32", rate, None, of, "here", at)])
    assert "212 GFLOP/s" in run("hardware")[1]  # its bounds may be on the next line
    listing = json.loads(run("hardware", "--format", "json")[1])
    assert listing["classes"][0]["peaks"][0]["flops_per_s"]["median"] == 2.12e11
    jsonschema.validate(listing, SCHEMA, jsonschema.Draft202012Validator)


def test_workloads_are_listed(run: Run) -> None:
    text = run("workloads")[1]
    for words in ("image_rows", "epochs", "tensorflow/cudnn", "cuDNN kernels need an NVIDIA GPU"):
        assert words in text
    assert json.loads(run("workloads", "--format", "json")[1])["format"] == "rnnsweep-workloads"
    assert "sequence_length" in run("workloads", "char_rnn", "--set", "cell=gru")[1]


def test_a_plan_has_what_would_run_and_what_cannot(run: Run, home: Path) -> None:
    names = ["tensorflow/portable", "tensorflow/cudnn"]
    Path("mine.yaml").write_text(spec_text(implementations=names))
    code, out, err = run("plan", "mine.yaml", "--set", "repeats=3")
    assert (code, err) == (0, "")
    assert "3 blocks × 1 arm × 3 repeats = 9 trials" in out
    assert "cannot run tensorflow/cudnn on cpu: cuDNN kernels need an NVIDIA GPU" in out
    plan = json.loads(run("plan", "mine.yaml", "--format", "json")[1])
    assert (plan["format"], plan["version"], plan["trials"]) == ("rnnsweep-plan", 3, 3)
    assert plan["impossible"][0]["implementation"] == "tensorflow/cudnn"
    assert not home.exists()
