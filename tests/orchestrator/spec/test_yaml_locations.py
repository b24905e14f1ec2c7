"""How a spec's text is read: files, YAML's traps, and `--set`."""
# ruff: noqa: E501  tables are read by their columns

import pathlib
from typing import Any

import pytest
import yaml

from orchestrator.spec import Problem, SpecError, load_spec, yaml_locations
from orchestrator.spec.errors import key_text, shown_value
from tests.orchestrator.spec.spec_lines import read, refused, written

ROWS: dict[str, Any] = yaml.safe_load(
    pathlib.Path(__file__).with_name("yaml_traps.yaml").read_text()
)
DEEP = ("a: " + "[" * 5000, "x.yaml:1", "at most 32 levels", "more")
LONG = ("#" * 1_000_001, "x.yaml", "at most 1,000,000 characters", "1,000,001 characters")


@pytest.mark.parametrize(("text", "place", "expected", "received"), [*ROWS["texts"], LONG, DEEP])
def test_what_is_no_mapping_of_yaml_is_reported_by_line(
    text: str, place: str, expected: str, received: str
) -> None:
    [problem] = refused(text)
    assert problem.place == place
    assert expected in problem.expected
    assert received in problem.received


def test_an_alias_bomb_is_refused_before_it_grows() -> None:
    lines = ["a: &a [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"{one}: &{one} [{', '.join([f'*{before}'] * 10)}]" for before, one in
              zip("abcdefghi", "bcdefghij", strict=True)]  # fmt: skip
    [problem] = refused("\n".join(lines))
    assert "at most 10,000 values" in problem.expected
    assert "aliases" in problem.hint


@pytest.mark.parametrize(("line", "key", "expected", "received"), ROWS["keys"])
def test_keys_and_tags_that_yaml_allows_and_a_spec_does_not(
    line: str, key: str, expected: str, received: str
) -> None:
    problem = next(one for one in refused(written({23: line})) if one.key == key)
    assert expected in problem.expected
    assert received in problem.received


def test_anchors_aliases_and_merges_are_understood_and_earlier_names_win() -> None:
    text = "a: &a {x: 1, y: 1}\nb: &b {x: 2, z: 2}\nc: {<<: [*a, *b], y: 3}\nd: *a\n"
    document = yaml_locations.parse_yaml(text, source="x")
    assert document.data["c"] == {"x": 1, "y": 3, "z": 2}
    assert document.data["d"] == {"x": 1, "y": 1}
    assert document.place(("c", "y")).line == 3


def test_scalars_are_read_as_yaml_1_2_with_booleans_of_1_1() -> None:
    text = "[1_000, 0x1f, -3, 1e-3, 1E3, .1, 1., 010, 1:30, 2001-01-01, on, No, ~, '1', 0o17, 1.5.2, +1]"
    data = yaml_locations.parse_yaml(f"a: {text}\n", source="x").data
    expected = [1000, 31, -3, 0.001, 1000.0, 0.1, 1.0, "010", "1:30", "2001-01-01", True, False, None, "1",
                15, "1.5.2", 1]  # fmt: skip
    assert data["a"] == expected
    assert [type(value) for value in data["a"]] == [type(value) for value in expected]


def refused_file(path: pathlib.Path) -> Problem:
    with pytest.raises(SpecError) as caught:
        load_spec(path)
    [problem] = caught.value.problems
    return problem


def test_what_is_no_file_of_text_is_reported(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "quickstart.yaml"
    path.write_bytes(b"\xef\xbb\xbf" + written({}).replace("\n", "\r\n").encode())
    assert load_spec(path).name == "quick", "a byte order mark and Windows lines are fine"
    missing = refused_file(tmp_path / "quikstart.yaml")
    assert (missing.place, missing.received) == (str(tmp_path / "quikstart.yaml"), "no such file")
    assert missing.hint == f"did you mean {path}?"
    assert refused_file(tmp_path / "prices.yaml").hint == ""
    assert refused_file(tmp_path).received == "is a directory"
    assert refused_file(path / "b.yaml").received == "not a directory"
    assert "null byte" in refused_file(pathlib.Path("a\0b.yaml")).received
    path.write_bytes("name: a\n# für\n".encode("latin-1"))
    problem = refused_file(path)
    assert (problem.place, problem.received) == (f"{path}:2", "the byte 0xfc")
    with path.open("wb") as file:
        file.truncate(2**40)
    assert "at most 1,000,000 characters" in refused_file(path).expected


def test_overrides_replace_add_and_are_typed_as_yaml() -> None:
    spec = read(
        written({1: "name: yes", 6: "  epochs: 0"}),
        "name=mended",
        "settings.epochs=3",
        "search.space.units.high=32",
        "search.space.batch_size={low: 8, high: 16}",
        "arms.implementations=[tensorflow/portable]",
        "limits.trial_s=60",
        "settings.epochs = 4",
    )
    assert (spec.name, spec.settings["epochs"], spec.limits.trial_s) == ("mended", 4, 60)
    assert spec.search.space["units"].probes == (16, 32)
    assert spec.search.space["batch_size"].probes == (8, 16)
    assert spec.arms.implementations == ("tensorflow/portable",)


@pytest.mark.parametrize(("override", "key", "expected", "received", "hint"), ROWS["overrides"])
def test_a_wrong_override_is_reported_as_it_was_typed(
    override: str, key: str, expected: str, received: str, hint: str
) -> None:
    [problem] = refused(written({}), override)
    typed = override if override.isprintable() else ascii(override)
    assert problem.place == f"--set {typed}"
    assert problem.key == key
    assert expected in problem.expected
    assert received in problem.received
    assert hint in problem.hint


def test_a_problem_reads_as_one_line_and_its_advice_short_and_harmless() -> None:
    assert key_text(("arms", "hardware", 1)) == "arms.hardware[1]"
    assert key_text(("a", "\x1b[31m")) == "a.'\\x1b[31m'"
    assert shown_value("\x1b[31m") == "'\\x1b[31m' (text)"
    assert shown_value("x" * 100) == f"'{'x' * 68}… (text)"
    assert shown_value([1, "a", None, True]) == "[1, 'a', nothing, true] (a list)"
    problem = Problem("x.yaml:7", "a.b", "a number", "'x' (text)", "try 3")
    assert str(problem) == "x.yaml:7: a.b: expected a number; received 'x' (text)\n    try 3"
