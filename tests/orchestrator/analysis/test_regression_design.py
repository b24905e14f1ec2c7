"""Test how params become columns, and which of them are excluded if blocks are too few."""

from __future__ import annotations

import numpy as np
import pytest

from orchestrator.analysis.comparisons.regression_design import MIN_FREEDOM, Design, designs
from orchestrator.core.trial import Config

SIZES = (16, 24, 32, 48, 64, 96, 128, 192)


def units_design(configs: list[Config]) -> Design:
    (design,) = (candidate for candidate in designs(configs) if candidate.param == "units")
    return design


def add_units(*rest: Config) -> list[Config]:
    return [{"units": size, **config} for size, config in zip(SIZES * 2, rest, strict=False)]


def test_a_number_that_may_be_zero_is_one_linear_column() -> None:
    rates = (0.3, 0.0, 0.1, 0.5, 0.2, 0.4, 0.0, 0.1)
    design = units_design(add_units(*({"dropout": rate} for rate in rates)))
    assert design.held == {"dropout": 0.1}
    assert design.covariates[:, 0] == pytest.approx([rate - 0.1 for rate in rates])
    assert design.covariates.shape == (8, 1)


def test_a_positive_number_is_one_logarithmic_column() -> None:
    sizes = (32, 64, 32, 128, 64, 32, 64, 128)
    design = units_design(add_units(*({"batch_size": size} for size in sizes)))
    assert design.held == {"batch_size": 64}
    assert design.covariates[:, 0] == pytest.approx(np.log(np.array(sizes) / 64))


def test_a_text_is_an_indicator_for_each_further_value() -> None:
    cells = ("gru", "lstm", "lstm", "relu", "gru", "lstm", "lstm", "relu")
    design = units_design(add_units(*({"cell": cell} for cell in cells)))
    assert design.held == {"cell": "lstm"}
    assert design.covariates.sum(axis=0).tolist() == [2, 2]
    assert design.covariates[1].tolist() == [0, 0]


CLIPPED: list[Config] = [{"clip": 1.0}, {}, {"clip": 0.5}, {"clip": 2.0}, {}, {"clip": 1.0}, {}, {}]


def test_a_conditional_number_has_columns_for_value_and_presence() -> None:
    design = units_design(add_units(*CLIPPED))
    assert design.held == {"clip": "absent"}
    off, there = design.covariates.T
    assert off.tolist() == [0, 0, -0.5, 1, 0, 0, 0, 0]
    assert there.tolist() == [float("clip" in config) for config in CLIPPED]


@pytest.mark.parametrize(("likelier", "held"), [("lstm", "absent"), ("gru", 0.1)])
def test_presence_is_excluded_if_another_param_implies_it(likelier: str, held: float | str) -> None:
    """Its reference value follows the other param: with cell lstm, a setting of gru is absent."""
    cells = [likelier if place % 3 else {"lstm": "gru", "gru": "lstm"}[likelier] for place in SIZES]
    cells = [likelier, likelier, *cells[2:]]
    rates = (0.1, 0.2, 0.0, 0.1, 0.3, 0.0, 0.1, 0.2)
    rest: list[Config] = [
        {"cell": cell, **({"recurrent_dropout": rate} if cell == "gru" else {})}
        for cell, rate in zip(cells, rates, strict=True)
    ]
    design = units_design(add_units(*rest))
    assert design.covariates.shape == (8, 2)  # the cell, and the rate
    assert design.held["cell"] == likelier
    assert design.held["recurrent_dropout"] == held
    like_held = [
        row for row, config in zip(design.covariates, rest, strict=True)
        if config["cell"] == likelier and config.get("recurrent_dropout", "absent") == held
    ]  # fmt: skip
    assert like_held
    assert not np.any(like_held)


def test_with_too_few_blocks_the_least_correlated_params_are_excluded_first() -> None:
    configs: list[Config] = [
        {"units": 16, "layers": 1, "features": 8, "batch_size": 32},
        {"units": 24, "layers": 1, "features": 9, "batch_size": 64},
        {"units": 32, "layers": 2, "features": 11, "batch_size": 64},
        {"units": 48, "layers": 2, "features": 12, "batch_size": 32},
        {"units": 64, "layers": 2, "features": 14, "batch_size": 32},
        {"units": 96, "layers": 2, "features": 16, "batch_size": 64},
    ]
    design = units_design(configs)
    assert (tuple(design.held), design.unadjusted) == (("features",), ("batch_size", "layers"))
    assert design.covariates.shape == (6, 6 - 2 - MIN_FREEDOM)
    roomy = units_design([*configs, {**configs[0], "layers": 2}])
    assert (tuple(roomy.held), roomy.unadjusted) == (("features", "layers"), ("batch_size",))


def test_a_param_that_another_implies_needs_no_column() -> None:
    """Features are always twice the width, so one column is enough for both."""
    rest: list[Config] = [
        {"width": width, "features": 2 * width} for width in (8, 16, 8, 32, 16, 8, 32, 16)
    ]
    design = units_design(add_units(*rest))
    assert design.covariates.shape == (8, 1)
    assert (set(design.held), design.unadjusted) == ({"features", "width"}, ())


def test_a_param_that_another_implies_is_tied_to_it() -> None:
    rest: list[Config] = [{"features": size, "batch_size": 32 + size % 3} for size in SIZES]
    assert units_design(add_units(*rest)).tied == ("features",)


def test_a_param_that_several_others_imply_together_is_tied_to_them() -> None:
    """Units are the product of two params, neither of which determines them alone."""
    pairs = [(a, b) for a in (2, 4, 16) for b in (3, 9, 10)]
    configs: list[Config] = [{"units": a * b, "heads": a, "width": b} for a, b in pairs]
    assert units_design(configs).tied == ("heads", "width")


def test_a_text_with_a_value_for_every_block_is_unadjusted() -> None:
    design = units_design(add_units(*({"label": f"run {size}"} for size in SIZES)))
    assert (design.tied, design.unadjusted) == ((), ("label",))
