"""Search spaces: what a parameter can take, how many configs there are, and what a grid holds."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.core.trial import ConfigValue
from orchestrator.spec import Choices, Range, Search
from orchestrator.spec.space import activation, example, is_met, same

NAMES = ("a", "b", "c", "d")
values = st.one_of(
    st.booleans(),
    st.integers(-5, 5),
    st.floats(-4, 4).map(lambda x: round(x, 2)),
    st.sampled_from(["x", "y", "z", "true", "1"]),
    st.none(),
    st.lists(st.sampled_from([1, 2, "x", True, None]), max_size=2).map(tuple),
)


@st.composite
def choices(draw: st.DrawFn) -> dict[str, Any]:
    kept = list[ConfigValue]()
    for value in draw(st.lists(values, min_size=1, max_size=4)):
        if not any(same(value, other) for other in kept):
            kept.append(value)
    return {"choices": kept}


@st.composite
def finite_ranges(draw: st.DrawFn) -> dict[str, Any]:
    steps = draw(st.integers(0, 4))
    if draw(st.booleans()):
        low, step = draw(st.integers(-10, 10)), draw(st.integers(1, 5))
        return {"low": low, "high": low + steps * step, "step": step}
    low, step = draw(st.integers(-100, 100)), draw(st.integers(1, 30))  # in hundredths
    return {"low": low / 100, "high": (low + steps * step) / 100, "step": step / 100}


@st.composite
def finite_spaces(draw: st.DrawFn) -> dict[str, dict[str, Any]]:
    space = dict[str, dict[str, Any]]()
    for name in NAMES[: draw(st.integers(0, 4))]:
        space[name] = draw(st.one_of(choices(), finite_ranges()))
        for other in draw(st.sets(st.sampled_from(sorted(space)), max_size=2)) - {name}:
            kind = Choices if "choices" in space[other] else Range
            some = list(kind.model_validate(space[other]).grid_values() or ())
            asked = draw(st.lists(st.sampled_from(some), min_size=1, max_size=2))
            space[name].setdefault("when", {})[other] = asked
    return space


def search(space: dict[str, Any]) -> Search:
    return Search.model_validate({"sampler": "grid", "space": space})


@given(finite_spaces())
def test_a_grid_holds_every_config_once_and_honours_conditions(space: dict[str, Any]) -> None:
    made = search(space)
    grid = made.grid()
    assert len(grid) == made.size() == made.count() == len({json.dumps(config) for config in grid})
    for config in grid:
        assert list(config) == [name for name in space if name in config]
        for name, parameter in made.space.items():
            assert (name in config) is is_met(parameter.when, config)
            assert name not in config or parameter.contains(config[name])
    for name, parameter in made.space.items():
        on, seen = activation(made.space, name), [c[name] for c in grid if name in c]
        assert (on is None) is (not seen)
        if on is not None:
            grid_values = parameter.grid_values() or ()
            assert all(any(same(value, other) for other in seen) for value in grid_values)
            assert example(made.space, {**on, name: parameter.probes[-1]}) in grid


def test_huge_spaces_are_counted_and_infinite_ones_have_no_grid() -> None:
    space: dict[str, Any] = {name: {"low": 1, "high": 10**9} for name in NAMES}
    assert search(space).size() == 10**36
    assert search({"a": {"low": 0.0, "high": 1e-3, "step": 1e-9}}).size() == 10**6 + 1
    space = {"a": [1, 2], "b": {"choices": [1], "when": {"a": 1}},
             "c": {"low": 0.0, "high": 1.0, "when": {"a": 2, "b": 1}}}  # fmt: skip
    assert search(space).size() == 2, "c never takes part"
    infinite = search({"a": {"low": 0.0, "high": 1.0}})
    assert infinite.size() is None
    with pytest.raises(ValueError, match="a is infinite: give choices or a step"):
        infinite.grid()
    with pytest.raises(ValueError, match="give configs"):
        infinite.count()


def test_numbers_of_a_range_are_of_one_kind_and_steps_add_up_to_what_was_written() -> None:
    for data in ({"low": 1, "high": 2}, {"low": 1, "high": 8, "log": True}):
        assert {type(value) for value in Range.model_validate(data).probes} == {int}
    for mixed in ({"low": 1, "high": 2.0}, {"low": 1, "high": 2, "step": 0.5}):
        assert {type(value) for value in Range.model_validate(mixed).probes} == {float}
    assert Range(low=0.1, high=0.7, step=0.1).grid_values() == [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7]


def test_values_that_a_parameter_cannot_take() -> None:
    both = Choices(choices=(1, True, 1.5, "1"))
    assert (both.count, both.origin(True)) == (4, ("choices", 1))
    assert not is_met({"a": (1,)}, {"a": True}), "true is not 1"
    assert not Choices(choices=((1,), None)).contains((True,))
    assert not Choices(choices=(1, 2)).contains(True)
    assert not Range(low=0, high=8, step=4).contains(2)
    whole = Range(low=0, high=8)
    assert not any(whole.contains(value) for value in (True, 2.5, "2"))
    assert Range(low=0.0, high=8.0).contains(2.5)
