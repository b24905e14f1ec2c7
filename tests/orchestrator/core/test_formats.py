"""Which format numbers are read, through which migrations, and how others are refused."""

import json
from typing import Any

import pytest

from orchestrator.core.formats import Format, WrittenBy, written_by
from orchestrator.storage.tracking.stored_records import Form, Lease
from orchestrator.storage.tracking.tracking_errors import Damaged, WrongVersion


def renamed(content: dict[str, Any]) -> dict[str, Any]:
    return {"until_s": content.pop("ends_s"), **content}


def doubled(content: dict[str, Any]) -> dict[str, Any]:
    return content | {"until_s": 2 * content["until_s"]}


@pytest.mark.parametrize(
    ("migrations", "oldest"),
    [({}, 9), ({8: doubled}, 8), ({8: doubled, 7: renamed}, 7), ({7: renamed}, 9)],
)
def test_numbers_are_read_from_which_migrations_lead_to_the_present_one(
    migrations: dict[int, Any], oldest: int
) -> None:
    form = Format("a thing", 9, migrations)
    assert form.oldest == oldest
    assert [number for number in range(5, 12) if form.reads(number)] == [*range(oldest, 10)]
    assert not any(form.reads(number) for number in (None, "9", 9.0, True))


def test_content_goes_through_every_migration_in_order() -> None:
    form = Form(Lease, Format("a lease", 9, {7: renamed, 8: doubled}))
    for number, name in ((7, "ends_s"), (8, "until_s")):
        text = json.dumps({"version": number, "content": {"owner": None, name: 2.0}})
        assert form.load(text, "here") == Lease(None, 4.0)
    assert form.load(form.dump(Lease(None, 4.0)), "here") == Lease(None, 4.0)


def test_a_former_text_that_its_migration_cannot_read_is_damaged() -> None:
    form = Form(Lease, Format("a lease", 9, {8: renamed}))
    contents: list[Any] = [{}, {"ends_s": "soon"}, {"ends_s": 1.0, "unknown": 1}, []]
    for content in contents:
        with pytest.raises(Damaged):
            form.load(json.dumps({"version": 8, "content": content}), "here")


@pytest.mark.parametrize(
    ("number", "writer", "parts"),
    [
        (12, WrittenBy("0.3.0", "abc"), ("format 12, written by rnnsweep 0.3.0", "commit abc")),
        (12, WrittenBy(), ("an unknown version of rnnsweep", "upgrade rnnsweep")),
        (7, WrittenBy(), ("of format 7, from before the first release", "--fresh")),
    ],
)
def test_a_number_that_is_not_read_is_refused_with_the_version_to_install(
    number: object, writer: WrittenBy, parts: tuple[str, str]
) -> None:
    text = Format("a thing", 9, {8: doubled}).refusal("here", number, writer)
    assert text.startswith("here: a thing of format ")
    for part in parts:
        assert part in text
    assert "\n" not in text


def test_who_wrote_something_is_read_from_any_json() -> None:
    assert written_by({"version": "0.3.0", "commit": "abc"}) == WrittenBy("0.3.0", "abc")
    assert written_by({"version": "\x1b[31m"}) == WrittenBy(r"\x1b[31m")
    values: list[Any] = [None, [], {"version": 3, "commit": None}, {"unknown": 1}]
    for value in values:
        assert written_by(value) == WrittenBy()


def test_a_text_of_another_number_in_a_store_names_who_wrote_it() -> None:
    form = Form(Lease, Format("a lease", 9))
    text = json.dumps({"version": 10, "written_by": {"version": "9.9.9"}, "content": "other"})
    with pytest.raises(WrongVersion, match=r"rnnsweep 9\.9\.9"):
        form.load(text, "here")
