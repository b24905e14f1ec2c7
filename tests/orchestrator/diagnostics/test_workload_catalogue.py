"""The tables of the workloads on their page."""

import itertools
import typing
from dataclasses import fields

from orchestrator.diagnostics import workload_catalogue as catalogue
from workloads.backends.registry import all_options
from workloads.layer_traits import Cell, LayerTraits


def test_the_needs_have_every_trait_and_option() -> None:
    usual = LayerTraits()
    _, stacks, options = zip(*catalogue.changes(), strict=True)
    for trait in fields(LayerTraits):
        assert {getattr(traits, trait.name) for traits in stacks} > {getattr(usual, trait.name)}
    assert {traits.cell for traits in stacks} == set(typing.get_args(Cell))
    assert set(itertools.chain(*options)) == set(all_options())
