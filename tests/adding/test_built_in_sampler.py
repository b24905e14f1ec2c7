"""A built-in sampler is one class and its name in a list: the example of the page, in a copy."""

from pathlib import Path

from tests.adding.copied_project import copy_project
from tests.documents import ROOT, blocks

CLASS = blocks("python", ROOT / "docs" / "adding" / "sampler.md")[-1][1]
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
