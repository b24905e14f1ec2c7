"""The catalogue of settings, metrics and implementations."""

from __future__ import annotations

import typing
from dataclasses import fields, replace

import pytest

from orchestrator.core.errors import Refusal
from orchestrator.diagnostics import catalogue
from orchestrator.diagnostics.catalogue import Catalogue
from orchestrator.diagnostics.catalogue.kernel_support import DEVICES, changes, needs, runners
from orchestrator.spec import SpecError
from tests.orchestrator.planning.test_plan import machine
from workloads import registry
from workloads.eligibility import Cell, LayerTraits, ineligibility_reason
from workloads.implementations import OPTIONS

IMAGE_ROWS = registry.find_workload("image_rows")


@pytest.fixture(autouse=True)
def all_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workloads.eligibility.is_installed", lambda package: True)


def test_what_decides_the_data_is_not_called_searchable() -> None:
    listing = Catalogue((IMAGE_ROWS,), ())
    text = catalogue.as_text(listing)
    assert (
        "settings (a search space may have all, except dataset, data_path, which select the data)"
        in text
    )
    (workload,) = catalogue.as_json(listing)["workloads"]
    fixed = [one["name"] for one in workload["settings"] if not one["searchable"]]
    assert fixed == ["dataset", "data_path"]
    assert "val_accuracy" in workload["metrics"]
    assert {"slices", "slice_steps", "timed_s", "ratio_interval"} <= {*workload["timing_metrics"]}
    assert "metrics of arms timed in slices  step_ms" in text


def test_the_values_of_a_choice_are_shown() -> None:
    listing = Catalogue((IMAGE_ROWS,), ())
    assert "the recurrent cell: lstm, gru, rnn_tanh or rnn_relu [lstm]" in catalogue.as_text(
        listing
    )
    (workload,) = catalogue.as_json(listing)["workloads"]
    choices = {one["name"]: one["choices"] for one in workload["settings"]}
    assert choices["cell"] == ["lstm", "gru", "rnn_tanh", "rnn_relu"]
    assert choices["units"] == []


def test_each_implementation_runs_or_has_a_reason_on_each_class() -> None:
    text = catalogue.as_text(catalogue.full_catalogue(machine(gpus=1)))
    on_cpu, on_gpu = text.split("on CPU A, 4 CPUs, with")[1].split("\non NVIDIA T4 (CPU A, 4 CPUs)")
    assert "tensorflow/cudnn     cuDNN kernels need an NVIDIA GPU" in on_cpu
    assert "tensorflow/portable  runs, also +xla +unroll" in on_cpu
    assert "tensorflow/cudnn     runs" in on_gpu


def test_workloads_that_differ_are_listed_separately() -> None:
    listing = Catalogue((IMAGE_ROWS, registry.find_workload("sentiment")), machine(gpus=1))
    text = " ".join(catalogue.as_text(listing).split())
    assert "torch/cudnn runs image_rows, also +bf16" in text
    assert "not sentiment: Keras' cuDNN path takes no mask on torch" in text


def test_a_backend_that_is_not_installed_has_a_command_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("workloads.eligibility.is_installed", lambda package: package != "jax")
    text = catalogue.as_text(catalogue.full_catalogue(machine()))
    assert "jax/portable         jax is not installed here: pip install 'rnnsweep[jax]'" in text


def test_one_workload_is_listed_with_settings() -> None:
    listing = catalogue.workload_catalogue(
        "image_rows", ["cell=gru", "recurrent_dropout=0.2"], machine(gpus=1)
    )
    text = catalogue.as_text(listing)
    assert "on NVIDIA T4 (CPU A, 4 CPUs), with cell gru, recurrent_dropout 0.2" in text
    assert "tensorflow/cudnn     cuDNN has no recurrent dropout" in text
    assert "one change at a time" not in text
    body = catalogue.as_json(listing)
    assert body["asked"] == {"cell": "gru", "recurrent_dropout": 0.2}
    verdicts = {
        (row["implementation"], row["hardware"]): row["reason"]
        for row in body["workloads"][0]["implementations"]
    }
    assert verdicts["tensorflow/portable", "CPU A, 4 CPUs"] is None
    assert "recurrent dropout" in verdicts["tensorflow/cudnn", "NVIDIA T4 (CPU A, 4 CPUs)"]


@pytest.mark.parametrize(
    ("name", "overrides", "message"),
    [
        ("image_row", (), "did you mean 'image_rows'"),
        ("own.module:run", (), "Expected a built-in one"),
        ("image_rows", ("cel=gru",), "settings.cel: no such setting"),
        ("image_rows", ("units=0",), "settings.units: Input should be greater than or equal to 1"),
    ],
)
def test_what_cannot_be_asked_is_refused(
    name: str, overrides: tuple[str, ...], message: str
) -> None:
    with pytest.raises(Refusal, match=message):
        catalogue.workload_catalogue(name, overrides, ())
    with pytest.raises(SpecError, match="KEY=VALUE, such as cell=gru"):
        catalogue.workload_catalogue("image_rows", ["cell"], ())


def test_every_trait_and_option_is_one_of_the_changes() -> None:
    usual, every_change = LayerTraits(), list(changes())
    for trait in fields(LayerTraits):
        assert any(
            getattr(change.traits, trait.name) != getattr(usual, trait.name)
            for change in every_change
        ), trait.name
    assert {change.traits.cell for change in every_change} == set(typing.get_args(Cell))
    assert {option for change in every_change for option in change.options} == set(OPTIONS)
    assert len({change.name for change in every_change}) == len(every_change)


def test_the_table_of_needs_agrees_with_the_rules() -> None:
    of_change = {change.name: change for change in changes()}
    all_needs = list(needs())
    assert len(all_needs) == len(of_change) * sum(len(runners(device)) for device in DEVICES)
    for need in all_needs:
        change = of_change[need.change]
        asked = replace(need.implementation, options=change.options)
        assert need.reason == ineligibility_reason(asked, change.traits, need.device)


@pytest.mark.parametrize("width", [60, 80, 100])
def test_the_table_of_needs_fits_the_page_and_stands_in_columns(width: int) -> None:
    text = catalogue.as_text(catalogue.full_catalogue(()), width)
    assert max(map(len, text.splitlines())) <= width
    row = next(line for line in text.splitlines() if line.startswith("  recurrent_dropout  "))
    assert row.split()[1:4] == ["yes", "no", row.split()[3]]
    number = row.split()[3]
    assert f"{number:>4}  cuDNN has no recurrent dropout" in text


def test_the_version_of_the_object() -> None:
    body = catalogue.as_json(catalogue.full_catalogue(machine()))
    assert (body["format"], body["version"]) == ("rnnsweep-workloads", 2)
    assert list(body) == [
        "format", "version", "hardware", "asked", "workloads", "needs", "backends", "kernels",
        "options",
    ]  # fmt: skip
    assert list(body["needs"][0]) == ["change", "implementation", "device", "reason"]
