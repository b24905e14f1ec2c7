"""What every sampler and every pruner has to satisfy: the registered ones, and foreign classes."""

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from orchestrator.core.trial import Config, canonical
from orchestrator.sampling import PRUNERS, SAMPLERS, PrunerKind
from orchestrator.scheduling.suggester import Suggester
from orchestrator.spec import Search

SPACE = {
    "units": {"low": 16, "high": 128, "log": True},
    "layers": [1, 2],
    "dropout": {"low": 0.0, "high": 0.5, "step": 0.1, "when": {"layers": 2}},
}
LISTED = [{"units": units, "layers": layers} for units in range(8, 32) for layers in (1, 2)]


@dataclass(frozen=True)
class Sampled:
    """A sampler in a search of so many blocks."""

    name: str
    sampler: Any
    search: dict[str, Any] = field(default_factory=lambda: {"configs": 200, "space": SPACE})
    blocks: int = 24
    learns: bool = True

    def searched(self, **changes: Any) -> Search:
        body = {"objectives": {"val_accuracy": "maximize"}, **self.search, **changes}
        return Search.model_validate({"sampler": self.sampler, **body})


PARTICULAR: dict[str, dict[str, Any]] = {
    "grid": {"search": {"space": {"units": list(range(8, 32)), "layers": [1, 2]}}},
    "list": {"search": {"configs": LISTED}},
    "nsga2": {"blocks": 110},  # a generation has 50
}
BUILT_IN = [
    Sampled(
        kind.word(),
        kind.word(),
        learns=kind.learns,
        **PARTICULAR.get(kind.word(), {}),
    )
    for kind in SAMPLERS
]
FOREIGN = [
    Sampled("foreign with arguments", {"name": "my_samplers:Neighbours", "share": 0.8}),
    Sampled("genetic", {"name": "optuna.samplers:NSGAIISampler", "population_size": 5}),
]
SAMPLED = pytest.mark.parametrize("case", BUILT_IN + FOREIGN, ids=lambda case: case.name)


def accuracy(config: Mapping[str, Any]) -> float:
    return 1.0 / (1.0 + abs(float(config["units"]) - 50)) + 0.01 * float(config.get("layers", 1))


def suggest(suggester: Suggester, blocks: range, *, sign: float = 1.0) -> list[Config]:
    """Suggest blocks and report them; three of them are open at any time."""
    configs = list[Config]()
    for index in blocks:
        config = suggester.suggest(index)
        assert config is not None
        configs.append(config)
        if index - blocks.start >= 3:
            suggester.report(index - 3, [sign * accuracy(configs[-4])])
    return configs


@SAMPLED
def test_equal_seeds_suggest_equal_configs_which_are_in_the_space_and_come_once(
    case: Sampled,
) -> None:
    search = case.searched()
    configs = suggest(Suggester(search, 3), range(case.blocks))
    assert suggest(Suggester(search, 3), range(case.blocks)) == configs
    assert len(set(map(canonical, configs))) == case.blocks
    for config in configs:
        assert all(
            search.space[name].contains(config[name]) for name in search.space.keys() & config
        )
    if case.name != "list":
        assert suggest(Suggester(search, 4), range(case.blocks)) != configs


@SAMPLED
def test_a_stopped_search_resumes_with_the_same_suggestions(case: Sampled) -> None:
    search = case.searched()
    configs = suggest(Suggester(search, 3), range(case.blocks))
    for stopped_after in (1, case.blocks // 2):
        resumed = Suggester(search, 3)
        for index, config in enumerate(configs):
            if index < stopped_after:
                resumed.replay(index, config)
            else:
                assert resumed.suggest(index) == config
            if index >= 3:
                resumed.report(index - 3, [accuracy(configs[index - 3])])


@SAMPLED
def test_a_sampler_says_whether_it_learns(case: Sampled) -> None:
    """Opposite results lead to other suggestions, or they do not."""
    search = case.searched()
    assert search.sampler.learns is case.learns
    better, worse = (suggest(Suggester(search, 3), range(case.blocks), sign=s) for s in (1.0, -1.0))
    assert (better != worse) is case.learns


@pytest.mark.parametrize(
    "case", [case for case in BUILT_IN + FOREIGN if case.name != "list"], ids=lambda case: case.name
)
def test_a_small_space_is_used_up_to_its_last_config(case: Sampled) -> None:
    space = {"units": [1, 2, 3], "layers": [1, 2]}
    search = case.searched(space=space, configs=None if case.name == "grid" else 6)
    suggester = Suggester(search, 0)
    configs = suggest(suggester, range(6))
    assert {canonical(config) for config in configs} == {
        canonical(config) for config in search.grid()
    }
    assert suggester.suggest(6) is None


@SAMPLED
def test_a_dump_of_the_search_is_the_same_search(case: Sampled) -> None:
    search = case.searched()
    for dump in (search.model_dump(), search.model_dump(mode="json", exclude_unset=True)):
        assert Search.model_validate(dump) == search


@dataclass(frozen=True)
class Pruned:
    """A pruner, and other options of it that prune some of the blocks below."""

    name: str
    default: Any
    other: dict[str, Any]


PRUNED = [
    Pruned("median", "median", {"name": "median", "n_warmup_steps": 2}),
    Pruned(
        "of Optuna",
        "optuna.pruners:HyperbandPruner",
        {"name": "optuna.pruners:HyperbandPruner", "max_resource": 9},
    ),
    Pruned("foreign", "my_samplers:Patience", {"name": "my_samplers:Patience", "epochs": 2}),
]
EPOCHS = 10


def pruned_search(pruner: Any) -> Search:
    return Search.model_validate(
        {
            "sampler": "tpe",
            "configs": 20,
            "space": {"x": {"low": 0.0, "high": 1.0}},
            "objectives": {"val_accuracy": "maximize"},
            "pruner": pruner,
        }
    )


def follow(suggester: Suggester, index: int, config: Config) -> int:
    """Report the epochs of a block up to its end, and the block; return how many there were."""
    x = config["x"]
    assert isinstance(x, float)
    curve = [x + 0.1 * min(epoch, 10 * x) for epoch in range(EPOCHS)]
    for step, value in enumerate(curve):
        if suggester.should_prune(index, step, value):
            suggester.report(index, None, is_bad=True)
            return step + 1
    suggester.report(index, curve[-1:])
    return EPOCHS


def epochs_of(search: Search, replayed: int = 0) -> list[int]:
    """Return how many epochs each block has; some of the blocks are replayed."""
    first, suggester = Suggester(search, 3), Suggester(search, 3)
    counts = []
    for index in range(20):
        config = first.suggest(index)
        assert config is not None
        if index < replayed:
            suggester.replay(index, config)
        else:
            assert suggester.suggest(index) == config
        counts.append(follow(suggester, index, config))
        assert follow(first, index, config) == counts[-1]
    return counts


@pytest.mark.parametrize("kind", PRUNERS, ids=lambda kind: kind.word())
def test_the_documented_default_of_an_option_is_that_of_optuna(kind: type[PrunerKind]) -> None:
    usual = kind.model_validate({"name": kind.word()})
    taken = inspect.signature(type(usual.make())).parameters
    given = usual.options
    assert given == {name: taken[name].default for name in given}


@pytest.mark.parametrize("case", PRUNED, ids=lambda case: case.name)
def test_defaults_that_are_written_out_prune_the_same_blocks(case: Pruned) -> None:
    search = pruned_search(case.default)
    written = Search.model_validate(search.model_dump(mode="json"))
    assert written == search
    assert epochs_of(written) == epochs_of(search)


@pytest.mark.parametrize("case", PRUNED, ids=lambda case: case.name)
def test_a_pruner_ends_bad_blocks_not_before_its_first_epoch_and_a_stopped_search_resumes(
    case: Pruned,
) -> None:
    for pruner in (case.default, case.other):
        search = pruned_search(pruner)
        assert search.pruner is not None
        counts = epochs_of(search)
        assert search.pruner.first_epoch <= min(counts)
        assert max(counts[: search.pruner.startup_blocks], default=EPOCHS) == EPOCHS
        assert epochs_of(search, replayed=15) == counts
    assert min(counts) < EPOCHS == max(counts)
