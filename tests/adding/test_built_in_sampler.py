"""A built-in sampler is one class and its name in a list, in a copy of the packages."""

from pathlib import Path

from tests.adding.copied_project import copy_project

CLASS = '''\
class Nsga3(SamplerKind):
    """Optuna's genetic algorithm NSGA-III."""

    name: Literal["nsga3"] = "nsga3"
    about: ClassVar[str] = "breeds generations of configs, for many objectives"
    learns: ClassVar[bool] = True
    sees: ClassVar[int | None] = None

    def make(self, block: BlockSeed) -> BaseSampler:
        from optuna.samplers import NSGAIIISampler

        return NSGAIIISampler(seed=block.value)

    def memory(self) -> SeenTrials:
        return Generations()
'''
SAMPLERS = "orchestrator/sampling/samplers.py"
LIST = "SAMPLERS: tuple[type[SamplerKind], ...] = (Tpe, Nsga2, Random, Grid, Qmc, Listed)"


def test_a_built_in_sampler_takes_one_file(tmp_path: Path) -> None:
    project = copy_project(tmp_path)
    project.replace_line(SAMPLERS, LIST, f"{CLASS}\n\n{LIST[:-1]}, Nsga3)")
    observed = project.observe("tests.adding.observe_sampler")
    assert Path(observed["place"]).is_relative_to(tmp_path)
    assert observed["made"] == "NSGAIIISampler"
    assert observed["survives its dump"] is True
    assert observed["learns"] is True
    assert observed["in schema"] is True
    assert observed["pages"] == ["spec.md"]
