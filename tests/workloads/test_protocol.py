from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
    st.integers(),
    st.none() | words,
    st.sampled_from(["full", "timing"]),
    st.floats(min_value=1e-6, allow_nan=False, allow_infinity=False),
)
events: st.SearchStrategy[Event] = st.one_of(
    st.builds(Ready, st.integers()),
    st.builds(SliceDone, st.integers(min_value=1), st.floats(1e-9, allow_infinity=False)),
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


@given(requests)
def test_requests_survive_a_round_trip(request: TrialRequest) -> None:
    line = encode(request)
    assert "\n" not in line
    assert decode_request(line) == request


@given(events)
def test_events_survive_a_round_trip(event: Event) -> None:
    line = encode(event)
    assert "\n" not in line
    assert decode_event(line) == event


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
    with pytest.raises(ProtocolError, match=f"'{name}' is missing"):
        decode_event(json.dumps({key: value for key, value in body.items() if key != name}))
    with pytest.raises(ProtocolError, match="unknown field 'colour'"):
        decode_event(json.dumps({**body, "colour": 1}))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"workload": 3, "implementation": "a/b"}', "request.workload: expected str; received 3"),
        ('{"workload": "a", "implementation": "a/b", "device": "tpu"}', "expected cpu or gpu"),
        ('{"workload": "a", "implementation": "a/b", "seed": 1.5}', "request.seed: expected int"),
        ('{"workload": "a", "implementation": "a/b", "seed": true}', "request.seed: expected int"),
        ('{"workload": "a"}', "field 'implementation' is missing"),
        ("[]", "expected a JSON object; received list"),
        ("[" * 100_000, "expected one JSON object per line"),
        ('{"workload": "a", "implementation": "a/b", "settings": {"x": NaN}}', "received NaN"),
    ],
)
def test_a_wrong_request_is_explained(line: str, message: str) -> None:
    with pytest.raises(ProtocolError, match=message.replace("[", r"\[")):
        decode_request(line)


@pytest.mark.parametrize("number", ["1" + "0" * 400, "1e999", "-1e999", '"1"', "true"])
def test_a_number_that_is_no_finite_float_is_refused(number: str) -> None:
    with pytest.raises(ProtocolError, match="expected float"):
        decode_event(f'{{"event": "result", "metrics": {{"loss": {number}}}}}')


@pytest.mark.parametrize("value", [float("nan"), float("inf"), object(), {1, 2}])
def test_values_that_json_lacks_are_refused(value: Any) -> None:
    with pytest.raises(ProtocolError, match="cannot be written"):
        encode(Result({"loss": value}))


@pytest.mark.parametrize("command", [Slice(), Slice(7), Finish()])
def test_commands_survive_a_round_trip(command: Command) -> None:
    line = encode(command)
    assert decode_command(line) == command
    assert is_command(line)
    with pytest.raises(ProtocolError, match="unknown field 'command'"):
        decode_request(line)


def test_a_line_without_a_command_is_no_command() -> None:
    for line in ("", "[]", "{}", encode(TrialRequest("a:b", "none/noop"))):
        assert not is_command(line)
    with pytest.raises(ProtocolError, match="expected one of slice, finish; received None"):
        decode_command("{}")


def test_a_trial_is_measured_in_full_or_in_slices() -> None:
    request = TrialRequest("a:b", "none/noop", measure="timing", slice_s=0.5)
    assert decode_request(encode(request)) == request
    with pytest.raises(ProtocolError, match=r"request\.measure: expected full or timing"):
        decode_request('{"workload": "a:b", "implementation": "c/d", "measure": "slices"}')


@pytest.mark.parametrize(("steps", "seconds"), [(0, 1.0), (4, 0.0), (4, -1.0)])
def test_a_slice_has_steps_that_took_time(steps: int, seconds: float) -> None:
    with pytest.raises(ProtocolError, match="at least 1 step"):
        decode_event(f'{{"event": "slice_done", "steps": {steps}, "seconds": {seconds}}}')
