"""A dump of a spec is the same spec: as Python data, JSON or YAML, with and without defaults."""

import json
from collections.abc import Iterator
from typing import Any

import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.spec import SweepSpec, checks, yaml_locations
from tests.profiles import draws


def dumps(spec: SweepSpec) -> Iterator[dict[str, Any]]:
    for only_set in (False, True):
        yield spec.model_dump(exclude_unset=only_set)
        plain = spec.model_dump(mode="json", exclude_unset=only_set)
        yield plain
        yield json.loads(spec.model_dump_json(exclude_unset=only_set))
        for text in (yaml.safe_dump(plain, sort_keys=False), json.dumps(plain)):
            yield yaml_locations.parse_yaml(text, source="dump").data


def expect_round_trips(spec: SweepSpec) -> None:
    for dump in dumps(spec):
        again = SweepSpec.model_validate(dump)
        assert again == spec
        assert again.comparable_search() == spec.comparable_search()
        assert again.written_settings() == spec.written_settings()
        assert checks.inconsistencies(again) == checks.inconsistencies(spec)


def mapping(**optional: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional=optional)


SHARE = st.floats(0.001, 0.99)
NUMBER = st.integers(1, 900) | st.floats(0.001, 900)
VALUE = st.sampled_from([1, 2, 0.5, 1e-7, True, "lstm", "yes", "1", "é", None, [64, 32], []])
CHOICES = st.lists(VALUE, min_size=1, max_size=4, unique_by=json.dumps)
WHEN = st.dictionaries(st.sampled_from(["cell", "layers"]), VALUE | CHOICES, max_size=2)
RANGE = st.builds(
    lambda low, width, rest: {"low": low, "high": low + width, **rest},
    NUMBER,
    NUMBER,
    mapping(log=st.booleans(), when=WHEN),
) | st.builds(
    lambda low, step, count: {"low": low, "high": low + step * count, "step": step},
    st.integers(0, 9),
    st.integers(1, 9),
    st.integers(1, 9),
)
DIMENSION = CHOICES | RANGE | st.builds(lambda a, b: {"choices": a, "when": b}, CHOICES, WHEN)
OVER = st.sampled_from(
    ["mean", "min", "gpu", "* on *H200*", "tensorflow/cudnn", "torch/fused on cpu"]
)
OBJECTIVE = st.sampled_from(["maximize", "minimize"]) | st.builds(
    lambda direction, over: {"direction": direction, "over": over},
    st.sampled_from(["maximize", "minimize"]),
    OVER,
)
KIND = ["tpe", "grid", {"name": "nsga2"}, "mine:Sampler", {"name": "mine.of:Sampler", "n": 3}]
PRUNER = (
    st.sampled_from(["median", "mine:Pruner", None])
    | mapping(n_startup_trials=st.integers(0, 9), n_warmup_steps=st.integers(0, 9)).map(
        lambda options: {"name": "median", **options}
    )
    | st.just({"name": "mine:Pruner", "patience": 3, "names": ["a", {"b": 0.5}]})
)
SEARCH = mapping(
    sampler=st.sampled_from(KIND),
    pruner=PRUNER,
    configs=st.integers(1, 99)
    | st.just("auto")
    | mapping(interval=SHARE, at_least=st.integers(6, 9)),
    space=st.dictionaries(st.sampled_from(["units", "cell", "layers"]), DIMENSION),
    objectives=st.dictionaries(st.sampled_from(["step_ms", "val_accuracy"]), OBJECTIVE),
    open_blocks=st.integers(1, 9),
) | st.lists(st.dictionaries(st.sampled_from(["units", "cell"]), VALUE), min_size=1).map(
    lambda configs: {"configs": configs}
)
HARDWARE = st.sampled_from(["cpu", "gpu", "*H200*"]) | st.builds(
    lambda place, options: {**place, **options},
    st.sampled_from([{"class": "gpu"}, {"labels": {"market-type": "!in(spot, on-demand)"}}]),
    mapping(
        threads=st.integers(1, 4),
        cpus=st.integers(4, 8),
        settings=st.just({"epochs": 2, "rate": 0.5}),
        measure=st.sampled_from(["full", "timing"]),
        wait_s=st.just(900),
    ),
)
VARIANTS = st.sampled_from(
    [[{"cell": "lstm"}, {"cell": "gru"}], [{"cell": "gru", "layers": 2}],
     [{"name": "a b", "settings": {"cell": "gru"}}, {"settings": {"layers": 1}}], []]
)  # fmt: skip
ARMS = st.builds(
    lambda implementations, options: {"implementations": implementations, **options},
    st.sampled_from([["tensorflow/portable"], ["torch/portable+unroll+xla", "python/plain"]]),
    mapping(hardware=st.lists(HARDWARE, min_size=1, max_size=3), variants=VARIANTS),
)
SPECS = st.fixed_dictionaries(
    {
        "name": st.just("mine"),
        "workload": st.sampled_from(["image_rows", "own.module:run"]),
        "search": SEARCH,
        "arms": ARMS,
    },
    optional={
        "settings": st.just({"epochs": 8, "nested": {"a": [1, None, 0.5]}, "text": "no"}),
        "repeats": st.integers(1, 9),
        "seed": st.integers(0, 9),
        "baseline": st.sampled_from(["torch/portable", "lstm: torch/fused on cpu", None]),
        "trainer": st.sampled_from(["warm", "fresh", None]),
        "limits": mapping(
            trial_s=NUMBER, failures=st.sampled_from([None, 2]), memory_mib=st.integers(1, 99)
        ),
        "prices": st.sampled_from(
            [[], [{"hardware": "*", "usd_per_kwh": 0.3, "source": "us", "date": "2026-10-01"}]]
        ),
        "measure": st.sampled_from(["full", "timing"])
        | mapping(
            mode=st.sampled_from(["full", "timing"]),
            interval=SHARE,
            slices=st.just([6, 40]),
            slice_s=st.sampled_from([1, 0.25]),
        ),
        "disturbed": mapping(others_cpu_pct=st.sampled_from([20, 12.5])),
        "margins": mapping(speed=SHARE, accuracy=SHARE, val_loss=st.sampled_from([0.1, "2.5 %"])),
        "published": st.just(
            [{"source": "x", "implementation": "y", "hardware": "z", "metrics": {"fit_s": 3}}]
        ),
    },
)


@settings(max_examples=draws(40, 400), deadline=None)
@given(data=SPECS)
def test_a_spec_with_sections_of_every_kind_round_trips(data: dict[str, Any]) -> None:
    """Whether or not its keys fit together: then each dump has the same problems."""
    expect_round_trips(SweepSpec.model_validate(data))
