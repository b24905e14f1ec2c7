"""The catalogue of settings, metrics and implementations."""

import itertools
import typing
from dataclasses import fields

import pytest

from orchestrator.diagnostics import workload_catalogue as catalogue
from orchestrator.diagnostics.workload_catalogue import Catalogue
from orchestrator.report.document import Document
from orchestrator.report.formats.text import to_text
from tests.orchestrator.planning.test_plan import machine
from workloads import registry
from workloads.backends.registry import all_options
from workloads.layer_traits import Cell, LayerTraits

IMAGE_ROWS = registry.find_workload("image_rows")


@pytest.fixture(autouse=True)
def all_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workloads.eligibility.is_installed", lambda package: True)


def rows(document: Document, title: str) -> dict[str, str]:
    (part,) = [part for part in document.sections if part.title.startswith(title)]
    return {row[0]: row[1] for row in part.tables[0].rows}


def test_settings_have_their_choices_and_what_selects_the_data_is_not_searchable() -> None:
    listing = Catalogue((), (IMAGE_ROWS,))
    (workload,) = catalogue.catalogue_json(listing)["workloads"]
    settings = {setting["name"]: setting for setting in workload["settings"]}
    fixed = [name for name in settings if not settings[name]["searchable"]]
    assert fixed == ["dataset", "data_path"]
    assert settings["cell"]["choices"] == ["lstm", "gru", "rnn_tanh", "rnn_relu"]
    assert settings["units"]["choices"] == []
    assert "val_accuracy" in workload["metrics"]
    assert {"slices", "slice_steps", "timed_s", "ratio_interval"} <= {*workload["timing_metrics"]}


def test_each_implementation_runs_or_has_a_reason_on_each_class() -> None:
    document = catalogue.catalogue_document(Catalogue(machine(gpus=1)))
    on_cpu, on_gpu = rows(document, "on CPU A, 4 CPUs"), rows(document, "on NVIDIA T4 (CPU A")
    assert on_cpu["tensorflow/cudnn"] == "cuDNN kernels need an NVIDIA GPU"
    assert on_cpu["tensorflow/portable"].startswith("runs, also +xla +unroll")
    assert on_gpu["tensorflow/cudnn"].startswith("runs")


def test_workloads_that_differ_are_listed_separately() -> None:
    listing = Catalogue(machine(gpus=1), (IMAGE_ROWS, registry.find_workload("sentiment")))
    verdict = rows(catalogue.catalogue_document(listing), "on NVIDIA T4")["torch/cudnn"]
    assert verdict.startswith("image_rows: runs, also +bf16")
    assert "; sentiment: Keras' cuDNN path takes no mask on torch" in verdict


def test_one_workload_is_listed_with_settings() -> None:
    overrides = ["cell=gru", "recurrent_dropout=0.2"]
    listing = catalogue.workload_catalogue("image_rows", overrides, machine(gpus=1))
    document = catalogue.catalogue_document(listing)
    titles = [part.title for part in document.sections]
    assert "on NVIDIA T4 (CPU A, 4 CPUs), with cell gru, recurrent_dropout 0.2" in titles
    assert not any("one change at a time" in title for title in titles)
    body = catalogue.catalogue_json(listing)
    assert body["asked"] == {"cell": "gru", "recurrent_dropout": 0.2}
    verdicts = {
        (row["implementation"], row["hardware"]): row["reason"]
        for row in body["workloads"][0]["implementations"]
    }
    assert verdicts["tensorflow/portable", "CPU A, 4 CPUs"] is None
    assert "recurrent dropout" in verdicts["tensorflow/cudnn", "NVIDIA T4 (CPU A, 4 CPUs)"]


def test_the_needs_have_every_trait_and_option() -> None:
    usual = LayerTraits()
    _, stacks, options = zip(*catalogue.changes(), strict=True)
    for trait in fields(LayerTraits):
        assert {getattr(traits, trait.name) for traits in stacks} > {getattr(usual, trait.name)}
    assert {traits.cell for traits in stacks} == set(typing.get_args(Cell))
    assert set(itertools.chain(*options)) == set(all_options())


def test_an_overview_has_a_line_for_each_workload_and_what_runs_here() -> None:
    overview = catalogue.overview_document(Catalogue(machine(gpus=1)))
    (table,) = overview.sections[0].tables
    assert [row[0] for row in table.rows] == [workload.name for workload in registry.BUILT_IN]
    (on_cpu,) = [text for text in overview.sections[0].paragraphs if text.startswith("On CPU A")]
    assert "torch/fused" in on_cpu and "cudnn" not in on_cpu
    assert len(to_text(overview).splitlines()) < 24
