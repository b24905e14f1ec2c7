"""The tables of the workloads on their page."""

import itertools
import typing
from dataclasses import fields

from orchestrator.diagnostics import workload_catalogue as catalogue
from workloads.backends.registry import all_options
from workloads.layer_traits import Cell, LayerTraits
from workloads.registry import BUILT_IN


def test_the_changes_have_every_trait_and_option() -> None:
    usual = LayerTraits()
    _, stacks, options = zip(*catalogue.changes(), strict=True)
    for trait in fields(LayerTraits):
        assert {getattr(traits, trait.name) for traits in stacks} > {getattr(usual, trait.name)}
    assert {traits.cell for traits in stacks} == set(typing.get_args(Cell))
    assert set(itertools.chain(*options)) == set(all_options())


def test_every_workload_has_each_setting_once_with_its_default() -> None:
    shared, *further = [
        section.tables[0]
        for section in catalogue.catalogue_document().sections
        if "settings of" in section.title.lower()
    ]
    for workload, own in zip(BUILT_IN, further, strict=True):
        assert workload.settings_model is not None
        column = shared.headers.index(workload.name)
        listed = [(row[0], row[column]) for row in shared.rows if row[column]]
        listed += [(name, default) for name, _, default in own.rows]
        defaults = {
            name: "–" if field.default is None else str(field.default)
            for name, field in workload.settings_model.model_fields.items()
        }
        assert len(listed) == len(defaults)
        assert dict(listed) == defaults


def test_limits_name_the_implementations_and_a_device_where_it_matters() -> None:
    *_, limits = catalogue.catalogue_document().sections
    rows = {(where, change) for where, change, _ in limits.tables[0].rows}
    assert ("tensorflow/cudnn, jax/cudnn, torch/cudnn on a CPU", "any layer") in rows
    assert ("jax/cudnn", "padding right, masked; padding left, masked") in rows
    assert ("jax", "+xla") in rows
    assert ("tensorflow, jax, torch on a CPU", "+tf32") in rows
    assert ("torch/auto, torch/portable on a CPU", "+fp16") in rows
