"""An option is one decorator with its help, and a parameter of the function that it decorates."""

from pathlib import Path

from tests.adding.copied_project import copy_project

OPTION = """\
@click.option("--cheapest", is_flag=True, help="Show the cheapest of the fleets of --nodes only.")
"""


def test_an_option_of_plan_takes_one_file(tmp_path: Path) -> None:
    project = copy_project(tmp_path)
    plan = "orchestrator/cli/plan.py"
    project.insert_after(plan, "@options.same_code_option", OPTION)
    project.insert_after(plan, "    same_code: bool,", "    cheapest: bool,\n")
    observed = project.observe("tests.adding.observe_option")
    assert Path(observed["place"]).is_relative_to(tmp_path)
    assert observed["pages"] == ["commands.md"]
    assert observed["value"] is True
    assert "Show the cheapest of the fleets of --nodes only." in observed["help"]
