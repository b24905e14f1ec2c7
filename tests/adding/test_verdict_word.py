"""The word of a verdict is one line."""

from pathlib import Path

from tests.adding.copied_project import copy_project


def test_the_word_of_a_verdict_is_one_line(tmp_path: Path) -> None:
    project = copy_project(tmp_path)
    project.replace_line(
        "orchestrator/report/verdicts.py",
        '    "inconclusive": "inconclusive",',
        '    "inconclusive": "undecided",',
    )
    observed = project.observe("tests.adding.observe_verdict_word")
    assert Path(observed["place"]).is_relative_to(tmp_path)
    assert {"everything", "page", "crossing", "changes"} <= {*observed["with the new word"]}
    assert observed["with the old word"] == []
