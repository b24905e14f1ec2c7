"""The documents match the code: commands, specs, links, names and generated parts."""

import ast
import json
import re
import subprocess
from importlib.util import find_spec
from pathlib import Path

import pytest
import yaml

import rnnsweep
from orchestrator.cli import reference
from orchestrator.cli.main import main
from orchestrator.cluster.connection import this_machine
from orchestrator.hardware import classify
from orchestrator.planning.plan import make_plan
from orchestrator.spec import load_spec, parse_spec
from tests.commands import python
from tests.documents import PAGES, ROOT, blocks, commands, rnnsweep_commands
from tests.lacking import skip_here

README = ROOT / "README.md"
DOCS = ROOT / "docs"
WITH_INFRA = [*PAGES, *sorted((ROOT / "infra").rglob("README.md"))]
SWEEPS = [path for path in sorted((ROOT / "sweeps").rglob("*.yaml")) if path.stem != "prices"]


def slugs(page: Path) -> set[str]:
    """Return the anchors of a page's headings."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    titles = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title).lower().replace(" ", "-") for title in titles}


def test_the_readme_is_short_and_begins_with_two_commands_which_ci_runs() -> None:
    assert len(README.read_text().splitlines()) <= 100
    assert commands(README)[:2] == [["make", "demo"], ["make", "test"]]
    assert "make test" in (ROOT / ".ci" / "run").read_text()


def test_every_command_in_a_block_exists() -> None:
    targets = {words[1] for words in commands() if words[0] == "make"}
    for page in PAGES:
        if page.name != "CHANGELOG.md":  # it names targets that are gone
            targets.update(re.findall(r"`make ([a-z-]+)`", page.read_text()))
    subprocess.run(["make", "--dry-run", *targets], cwd=ROOT, capture_output=True, check=True)
    others = [words for words in commands() if words[0] != "make"]
    for words in others:
        if words[0].endswith("rnnsweep"):
            group = main.make_context("rnnsweep", words[1:2])
            main.commands[words[1]].make_context(words[1], words[2:], group)
        elif words[0] == "echo":
            json.loads(words[1])
        else:
            assert words[0].endswith("python") and words[1] == "-m"
            assert find_spec(words[2]) is not None, words


def test_the_page_of_commands_has_all_of_them() -> None:
    table = re.findall(r"^\| `rnnsweep ([a-z]+)", (DOCS / "commands.md").read_text(), re.MULTILINE)
    assert set(table) == set(main.commands)
    typed = {arguments[0] for arguments in rnnsweep_commands()}
    assert typed == set(main.commands)


def test_every_spec_and_part_of_a_spec_is_valid() -> None:
    usual = yaml.safe_load((ROOT / "sweeps" / "quickstart.yaml").read_text())
    usual["search"]["objectives"] = {"step_ms": "minimize"}  # arms in slices have no accuracy
    for page, block in blocks("yaml"):
        data = yaml.safe_load(block)
        if not data.keys() >= {"name", "workload", "search", "arms"}:
            replaced = {"workload", "settings"} if "model" in data else set[str]()
            data = {key: usual[key] for key in usual.keys() - replaced} | data
        parse_spec(yaml.safe_dump(data), source=page)


def test_python_is_valid_and_uses_what_rnnsweep_has() -> None:
    for page, block in blocks("python"):
        for node in ast.walk(ast.parse(block, page)):
            match node:
                case ast.Attribute(value=ast.Name(id="rnnsweep"), attr=name):
                    assert hasattr(rnnsweep, name), name


@pytest.mark.parametrize("page", sorted(WITH_INFRA), ids=lambda page: str(page.relative_to(ROOT)))
def test_every_file_and_link_of_a_page_exists(page: Path) -> None:
    text = page.read_text()
    roots = "orchestrator|workloads|sweeps|infra|tests|docs"
    files = re.findall(rf"`((?:{roots})/[\w./-]+)`", text)
    paths = [ROOT / file for file in files if "/NAME" not in file]  # a name of the reader's
    for link, anchor in re.findall(r"\]\(([^)#:]*)(?:#([^)]*))?\)", text):
        paths.append(page.parent / link if link else page)
        if anchor:
            assert anchor in slugs(paths[-1]), f"{link}#{anchor}"
    assert not [path for path in paths if not path.exists()]
    if "infra" in page.parts:  # in code spans and commands: with a slash or a file ending
        own = re.findall(r"`((?:\.\./)?[\w-]+(?:/[\w./-]*|\.(?:yaml|sbatch|txt|ini)))`", text)
        own += re.findall(r"(?<![\w/~])((?:infra|sweeps)/[\w/-]+(?:\.\w+)*)", text)
        assert not [n for n in own if not ((page.parent / n).exists() or (ROOT / n).exists())]


@pytest.mark.parametrize("path", SWEEPS, ids=lambda path: path.name)
def test_every_sweep_file_is_valid_has_a_comment_and_an_arm_for_this_machine(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workloads.eligibility.is_installed", lambda package: True)
    assert path.read_text().startswith("# ")
    spec = load_spec(path)
    assert make_plan(spec, classify(this_machine())).possible


@pytest.mark.parametrize("page", ["spec.md", "commands.md", "workloads.md", "mlflow.md"])
def test_the_generated_parts_are_up_to_date(page: str) -> None:
    _, _, generated = (DOCS / page).read_text().partition(reference.MARK)
    assert generated.strip() == reference.generated_parts()[page].strip(), "renew it: make docs"


@pytest.mark.parametrize("file", reference.generated_schemas(), ids=lambda file: file.name)
def test_the_generated_schemas_are_up_to_date(file: Path) -> None:
    assert file.read_text("utf-8") == reference.generated_schemas()[file], "renew it: make docs"


@pytest.mark.full
def test_the_site_builds_without_warnings_and_loads_nothing_from_elsewhere(tmp_path: Path) -> None:
    if find_spec("mkdocs") is None:
        skip_here("mkdocs-material is not installed here: make test installs it")
    build = ("-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", tmp_path)
    python(*build, cwd=ROOT).expect()
    loaded = r"<(?:script|img|iframe)[^>]+src=\"?https?:|<link[^>]+stylesheet[^>]+href=\"?https?:"
    assert not [page for page in tmp_path.rglob("*.html") if re.search(loaded, page.read_text())]


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
