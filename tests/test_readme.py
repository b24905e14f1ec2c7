"""The README's commands, files and spec exist. CI runs the commands themselves."""

import re
import subprocess
from pathlib import Path

import pytest

from orchestrator.cli.main import main
from orchestrator.cluster.connection import this_machine
from orchestrator.hardware import classify
from orchestrator.planning.plan import make_plan
from orchestrator.spec import load, parse
from workloads.registry import built_in_workloads

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text()
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
PAGES += sorted((ROOT / "infra").rglob("README.md"))
SWEEPS = [path for path in sorted((ROOT / "sweeps").glob("*.yaml")) if path.stem != "prices"]


def test_it_begins_with_two_commands_which_make_and_ci_have() -> None:
    commands = re.findall(r"^\$ (.*?)(?:\s+#.*)?$", README, re.MULTILINE)
    assert commands[:2] == ["make demo", "make test"]
    assert "make test" in (ROOT / ".ci" / "run").read_text()
    targets = ["demo", "test", *re.findall(r"`make ([a-z-]+)`", README)]
    command = ["make", "--dry-run", *targets]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert "rnnsweep demo" in done.stdout and "pytest" in done.stdout


def test_its_commands_exist_and_all_commands_are_in_it() -> None:
    named = set(re.findall(r"`rnnsweep ([a-z]+)", README))
    assert named == set(main.commands)


def test_it_names_every_metric_of_the_built_in_workloads() -> None:
    names = set(re.findall(r"`([a-z0-9_]+)`", README.partition("## Names in MLflow")[2]))
    assert not {metric for task in built_in_workloads() for metric in task.metrics} - names


def test_its_spec_is_valid() -> None:
    (block,) = re.findall(r"```yaml\n(.*?)```", README, re.DOTALL)
    assert parse(block, source="README.md").search.count() == 12


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_file_that_a_page_names_exists(page: Path) -> None:
    text = page.read_text()
    files = re.findall(r"`((?:orchestrator|workloads|sweeps|tests|docs)/[\w./-]+)`", text)
    links = re.findall(r"\]\(([^)#:]+)\)", text)
    paths = [*(ROOT / file for file in files), *(page.parent / link for link in links)]
    assert not [path for path in paths if not path.exists()]
    own = re.findall(r"`((?:\.\./)?[\w-]+(?:/[\w./-]*|\.(?:yaml|sbatch|txt|ini)))`", text)
    own += re.findall(r"(?<![\w/~])((?:infra|sweeps)/[\w/-]+(?:\.\w+)*)", text)
    if "infra" in page.parts:  # in code spans and commands: with a slash or a file ending
        assert not [n for n in own if not ((page.parent / n).exists() or (ROOT / n).exists())]


@pytest.mark.parametrize("path", SWEEPS, ids=lambda path: path.name)
def test_every_sweep_file_is_valid_has_a_comment_and_an_arm_for_this_machine(path: Path) -> None:
    assert path.read_text().startswith("# ")
    spec = load(path)
    assert make_plan(spec, classify(this_machine())).possible


ARCHITECTURE = (ROOT / "docs" / "architecture.md").read_text()


def test_every_function_that_the_architecture_names_exists() -> None:
    named = re.findall(r"`((?:orchestrator|workloads)/[\w/]+\.py)`:\s+`(\w+)`", ARCHITECTURE)
    assert len(named) >= 25
    missing = [
        (file, name)
        for file, name in named
        if not re.search(rf"^\s*(?:def|class) {name}\b", (ROOT / file).read_text(), re.MULTILINE)
    ]
    assert not missing


def test_the_architecture_lists_every_package() -> None:
    table = set(re.findall(r"^\| `(\w+)` \|", ARCHITECTURE, re.MULTILINE))
    packages = {path.parent.name for path in (ROOT / "orchestrator").glob("*/__init__.py")}
    assert packages == table
