"""How a spec's text is read: files, YAML's traps, and `--set`."""

import pathlib
from typing import NamedTuple

import pytest

from orchestrator.core.caller import called_by_command
from orchestrator.spec import Problem, SpecError, load_spec, yaml_locations
from orchestrator.spec.spec_errors import key_text, shown_value
from tests.orchestrator.spec.example_specs import QUICK_SPEC, edit_spec, problems_of, read_spec


class UnreadableText(NamedTuple):
    """A text that is no mapping of YAML; its problem's location, and parts of the rest."""

    name: str
    text: str
    location: str
    expected: str
    received: str


UNREADABLE = [
    UnreadableText(
        name="an empty file",
        text="",
        location="x.yaml:1",
        expected="a mapping",
        received="an empty file",
    ),
    UnreadableText(
        name="a list that is not closed",
        text="name: [a\nworkload: b\n",
        location="x.yaml:2:9",
        expected="",
        received="expected ',' or ']'",
    ),
    UnreadableText(
        name="a tab",
        text="search:\n\tsampler: tpe\n",
        location="x.yaml:2:1",
        expected="spaces",
        received="a tab",
    ),
    UnreadableText(
        name="a zero byte",
        text="name: a\nseed: \x00\n",
        location="x.yaml:2",
        expected="printable text",
        received="U+0000",
    ),
    UnreadableText(
        name="an alias of itself",
        text="a: &a [*a]\n",
        location="x.yaml:1",
        expected="32 levels deep",
        received="more",
    ),
    UnreadableText(
        name="a file that is too long",
        text="#" * 1_000_001,
        location="x.yaml",
        expected="at most 1,000,000 characters",
        received="1,000,001 characters",
    ),
    UnreadableText(
        name="lists that are too deep",
        text="a: " + "[" * 5000,
        location="x.yaml:1",
        expected="at most 32 levels",
        received="more",
    ),
]


@pytest.mark.parametrize("case", UNREADABLE, ids=lambda case: case.name)
def test_what_is_no_mapping_of_yaml_is_reported_by_line(case: UnreadableText) -> None:
    [problem] = problems_of(case.text)
    assert problem.location == case.location
    assert case.expected in problem.expected
    assert case.received in problem.received


def test_an_alias_bomb_is_refused_before_it_grows() -> None:
    lines = ["a: &a [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"{one}: &{one} [{', '.join([f'*{before}'] * 10)}]" for before, one in
              zip("abcdefghi", "bcdefghij", strict=True)]  # fmt: skip
    [problem] = problems_of("\n".join(lines))
    assert "at most 10,000 values" in problem.expected
    assert "alias" in problem.hint


class WrongLine(NamedTuple):
    """A line that is added to a good spec, and parts of the problem that it causes."""

    name: str
    line: str
    key: str
    expected: str
    received: str


WRONG_LINES = [
    WrongLine(
        name="a key twice",
        line="seed: 1\nseed: 2",
        key="seed",
        expected="",
        received="line 23",
    ),
    WrongLine(
        name="a number as a key",
        line="7: 1",
        key="7",
        expected="text as a key",
        received="7",
    ),
    WrongLine(
        name="a list as a key",
        line="? [a, b]\n: 1",
        key="?",
        expected="text as a key",
        received="(a list)",
    ),
    WrongLine(
        name="a tag that makes a Python object",
        line="seed: !!python/object:os.system {}",
        key="seed",
        expected="a whole number",
        received="(a mapping)",
    ),
    WrongLine(
        name="a tag that makes a Python name",
        line="seed: !!python/name:os.system x",
        key="seed",
        expected="a plain value",
        received="python/name",
    ),
    WrongLine(
        name="half of a surrogate pair",
        line='baseline: "\\ud800"',
        key="baseline",
        expected="a plain value",
        received="\\ud800",
    ),
    WrongLine(
        name="a merge of a number",
        line="<<: 3",
        key="<<",
        expected="a mapping to merge",
        received="3",
    ),
]


@pytest.mark.parametrize("case", WRONG_LINES, ids=lambda case: case.name)
def test_keys_and_tags_that_yaml_allows_and_a_spec_does_not(case: WrongLine) -> None:
    problems = problems_of(edit_spec(QUICK_SPEC, added=case.line))
    problem = next(problem for problem in problems if problem.key == case.key)
    assert case.expected in problem.expected
    assert case.received in problem.received


def test_anchors_aliases_and_merges_are_understood_and_earlier_names_win() -> None:
    text = "a: &a {x: 1, y: 1}\nb: &b {x: 2, z: 2}\nc: {<<: [*a, *b], y: 3}\nd: *a\n"
    document = yaml_locations.parse_yaml(text, source="x")
    assert document.data["c"] == {"x": 1, "y": 3, "z": 2}
    assert document.data["d"] == {"x": 1, "y": 1}
    assert document.location(("c", "y")).line == 3


def test_scalars_are_read_as_yaml_1_2_with_booleans_of_1_1() -> None:
    expected: dict[str, object] = {
        "1_000": 1000, "0x1f": 31, "0o17": 15, "-3": -3, "+1": 1, "1e-3": 0.001, "1E3": 1000.0,
        ".1": 0.1, "1.": 1.0, "010": "010", "1:30": "1:30", "2001-01-01": "2001-01-01",
        "on": True, "No": False, "~": None, "'1'": "1", "1.5.2": "1.5.2",
    }  # fmt: skip
    data = yaml_locations.parse_yaml(f"a: [{', '.join(expected)}]\n", source="x").data
    read = dict(zip(expected, data["a"], strict=True))
    assert read == expected
    types = {text: type(value) for text, value in expected.items()}
    assert {text: type(value) for text, value in read.items()} == types


def refused_file(path: pathlib.Path) -> Problem:
    with pytest.raises(SpecError) as caught:
        load_spec(path)
    [problem] = caught.value.problems
    return problem


def test_what_is_no_file_of_text_is_reported(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "quickstart.yaml"
    path.write_bytes(b"\xef\xbb\xbf" + QUICK_SPEC.replace("\n", "\r\n").encode())
    assert load_spec(path).name == "quick", "a byte order mark and Windows lines are fine"
    missing = refused_file(tmp_path / "quikstart.yaml")
    assert (missing.location, missing.received) == (
        str(tmp_path / "quikstart.yaml"),
        "no such file",
    )
    assert missing.hint == f"did you mean {path} or quickstart?", "a file, or a shipped sweep"
    assert refused_file(tmp_path).received == "cannot be read: is a directory"
    assert refused_file(path / "b.yaml").received == "cannot be read: not a directory"
    assert "null byte" in refused_file(pathlib.Path("a\0b.yaml")).received
    path.write_bytes("name: a\n# für\n".encode("latin-1"))
    problem = refused_file(path)
    assert (problem.location, problem.received) == (f"{path}:2", "the byte 0xfc")
    with path.open("wb") as file:
        file.truncate(2**40)
    assert "at most 1,000,000 characters" in refused_file(path).expected


def test_the_nearest_file_is_named_where_a_spec_is_missing(tmp_path: pathlib.Path) -> None:
    examples = tmp_path / "sweeps"
    examples.mkdir()
    (examples / "timing.yaml").touch()
    assert str(examples / "timing.yaml") in refused_file(tmp_path / "timings.yaml").hint
    assert "did you mean" not in refused_file(tmp_path / "abc.yaml").hint


def test_overrides_replace_add_and_are_typed_as_yaml() -> None:
    spec = read_spec(
        edit_spec(QUICK_SPEC, {"name": "name: yes", "epochs": "epochs: 0"}),
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


class WrongOverride(NamedTuple):
    """A `--set` for a good spec, and parts of the one problem that it causes."""

    name: str
    override: str
    key: str
    expected: str
    received: str
    hint: str = ""


WRONG_OVERRIDES = [
    WrongOverride(
        name="a key without a value",
        override="settings.epochs",
        key="",
        expected="KEY=VALUE",
        received="'settings.epochs'",
    ),
    WrongOverride(
        name="a key below a list",
        override="search.space.batch_size.high=3",
        key="search.space.batch_size.high",
        expected="",
        received="[32, 64]",
        hint="--set search.space.batch_size=",
    ),
    WrongOverride(
        name="a list that is not closed",
        override="repeats=[1",
        key="repeats",
        expected="",
        received="expected ',' or ']'",
    ),
    WrongOverride(
        name="a misspelt kernel",
        override="arms.implementations=[tensorflow/portable, tensorflow/cudn]",
        key="arms.implementations[1]",
        expected="one of the kernels",
        received="'cudnn'",
    ),
    WrongOverride(
        name="a zero byte",
        override="limits.attempts=\x00",
        key="limits.attempts",
        expected="printable text",
        received="U+0000",
    ),
]


@pytest.mark.parametrize("case", WRONG_OVERRIDES, ids=lambda case: case.name)
def test_a_wrong_override_is_reported_as_it_was_typed(case: WrongOverride) -> None:
    with called_by_command():
        [problem] = problems_of(QUICK_SPEC, case.override)
    typed = case.override if case.override.isprintable() else ascii(case.override)
    assert (problem.location, problem.key) == (f"--set {typed}", case.key)
    assert case.expected in problem.expected
    assert case.received in problem.received
    assert case.hint in problem.hint


def test_a_problem_reads_as_one_line_and_its_advice_short_and_harmless() -> None:
    assert key_text(("arms", "hardware", 1)) == "arms.hardware[1]"
    assert key_text(("a", "\x1b[31m")) == "a.'\\x1b[31m'"
    assert shown_value("\x1b[31m") == "'\\x1b[31m' (text)"
    assert shown_value("x" * 100) == f"'{'x' * 68}… (text)"
    assert shown_value([1, "a", None, True]) == "[1, 'a', nothing, true] (a list)"
    problem = Problem("x.yaml:7", "a.b", "a number", "'x' (text)", "try 3")
    assert str(problem) == "x.yaml:7: a.b: expected a number; received 'x' (text)\n    try 3"
