from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workloads.context import Context
from workloads.implementations import parse_implementation
from workloads.protocol import (
    Artifact,
    Command,
    Dataset,
    Environment,
    Epoch,
    Event,
    Failure,
    Finish,
    KernelProof,
    PhaseBegan,
    PhaseEnded,
    ProtocolError,
    Ready,
    Result,
    Slice,
    SliceDone,
    TrialRequest,
    decode_command,
    decode_event,
    decode_request,
    encode,
    is_command,
)

finite = st.floats(allow_nan=False, allow_infinity=False)
durations = st.floats(1e-9, allow_infinity=False)
words = st.text(max_size=20)
metrics = st.dictionaries(words, finite, max_size=4)
plain = st.none() | st.booleans() | st.integers() | finite | words
values = st.recursive(
    plain, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3)
)
requests = st.builds(
    TrialRequest,
    words,
    words,
    st.dictionaries(words, values, max_size=4),
    st.sampled_from(["cpu", "gpu"]),
    st.integers(min_value=0),
    st.none() | words,
    st.sampled_from(["full", "timing"]),
    durations,
)
events: st.SearchStrategy[Event] = st.one_of(
    st.builds(Ready, st.integers()),
    st.builds(SliceDone, st.integers(min_value=1), durations),
    st.builds(PhaseBegan, words, finite),
    st.builds(PhaseEnded, words, finite, finite),
    st.builds(Epoch, st.integers(), finite, st.none() | finite, metrics),
    st.builds(KernelProof, words, words, words),
    st.builds(Dataset, words, words, words, st.integers(), st.integers()),
    st.builds(Environment, st.dictionaries(words, plain, max_size=4)),
    st.builds(Artifact, words, words),
    st.builds(Result, metrics),
    st.builds(Failure, st.sampled_from(["error", "non_finite", "data"]), words, words),
)


@given(requests, events)
def test_lines_survive_a_round_trip(request: TrialRequest, event: Event) -> None:
    assert decode_request(encode(request)) == request
    assert decode_event(encode(event)) == event
    assert "\n" not in encode(request) + encode(event)


@given(st.text() | values.map(json.dumps))
def test_any_other_line_is_refused(line: str) -> None:
    for decode in (decode_event, decode_request):
        with pytest.raises(ProtocolError):
            decode(line)


@given(events, st.data())
def test_a_missing_or_unknown_field_is_named(event: Event, data: st.DataObject) -> None:
    body = json.loads(encode(event))
    required = [
        item.name
        for item in dataclasses.fields(event)
        if item.default is item.default_factory is dataclasses.MISSING
    ]
    name = data.draw(st.sampled_from(required))
    with pytest.raises(ProtocolError, match=rf"{event.event}\.{name}: this field is missing"):
        decode_event(json.dumps({key: value for key, value in body.items() if key != name}))
    with pytest.raises(ProtocolError, match=rf"{event.event}\.colour: unknown field"):
        decode_event(json.dumps({**body, "colour": 1}))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"workload": 3}, r"request\.workload: .* valid string; received 3"),
        ({"device": "tpu"}, r"request\.device: .*'cpu' or 'gpu'; received 'tpu'"),
        ({"measure": "slices"}, r"request\.measure: .*'full' or 'timing'"),
        ({"seed": 1.5}, r"request\.seed: .* valid integer"),
        ({"seed": True}, r"request\.seed: .* valid integer"),
        ({"seed": -1}, r"request\.seed: .* greater than or equal to 0"),
        ({"slice_s": 0}, r"request\.slice_s: .* greater than 0"),
        ({"command": "slice"}, r"request\.command: unknown field"),
        ({"settings": {"x": float("nan")}}, "received NaN"),
    ],
)
def test_a_wrong_request_is_explained(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ProtocolError, match=message):
        decode_request(json.dumps({"workload": "a", "implementation": "a/b", **change}))


@pytest.mark.parametrize("line", ["[]", "[" * 100_000, ""])
def test_a_line_that_is_no_object_is_refused(line: str) -> None:
    assert not is_command(line)
    with pytest.raises(ProtocolError, match=r"expected (a|one) JSON object"):
        decode_request(line)


@pytest.mark.parametrize("number", ["1" + "0" * 400, "1e999", "-1e999", '"1"', "true"])
def test_a_number_that_is_no_finite_float_is_refused(number: str) -> None:
    with pytest.raises(ProtocolError, match=r"result\.metrics\.loss: .* (valid|finite) number"):
        decode_event(f'{{"event": "result", "metrics": {{"loss": {number}}}}}')


@pytest.mark.parametrize("value", [float("nan"), float("inf"), object(), {1, 2}])
def test_values_that_json_lacks_are_refused(value: Any) -> None:
    with pytest.raises(ProtocolError, match="cannot be written"):
        encode(Result({"loss": value}))


@pytest.mark.parametrize("command", [Slice(), Slice(7), Finish()])
def test_commands_survive_a_round_trip(command: Command) -> None:
    assert decode_command(encode(command)) == command
    assert is_command(encode(command))


def test_a_line_without_a_command_is_no_command() -> None:
    assert not is_command(encode(TrialRequest("a:b", "none/noop")))
    with pytest.raises(ProtocolError, match="expected one of slice, finish; received None"):
        decode_command("{}")


def context(sent: list[Event]) -> Context:
    return Context({}, parse_implementation("tensorflow/portable"), "cpu", 0, sent.append)


@pytest.mark.parametrize(
    "name", ["", ".", "..", "a/b.txt", "/a", "../a", ".hidden", "a b", "ä.txt", "a\n", "x" * 101]
)
def test_an_artifact_needs_a_plain_file_name(name: str) -> None:
    sent: list[Event] = []
    with pytest.raises(ValueError, match=r"artifact: expected a plain file name .* received"):
        context(sent).artifact(name, "text")
    assert sent == []


def test_artifacts_are_limited_in_number_and_size() -> None:
    sent: list[Event] = []
    trial = context(sent)
    trial.artifact("large.txt", "ä" * 128 * 1024)  # 2 bytes each
    trial.artifact("large.txt", "a" * 256 * 1024)  # in the place of the first
    with pytest.raises(ValueError, match=r"at most 256 KiB of texts .* 257 KiB with 'more.txt'"):
        trial.artifact("more.txt", "a" * 1024)
    trial.artifact("large.txt", "small")
    for index in range(15):
        trial.artifact(f"{index}.txt", "")
    with pytest.raises(ValueError, match=r"at most 16 texts of a trial; '15.txt' is one too many"):
        trial.artifact("15.txt", "")
    assert sent[:2] == [
        Artifact("large.txt", "ä" * 128 * 1024),
        Artifact("large.txt", "a" * 256 * 1024),
    ]
    assert len(sent) == 18
