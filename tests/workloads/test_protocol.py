import dataclasses
import json
from types import MappingProxyType
from typing import Any, get_args

import numpy as np
import pytest

from workloads import protocol
from workloads.context import Context
from workloads.implementations import parse_implementation

EVENTS: tuple[protocol.Event, ...] = (
    protocol.PhaseBegan("load", 1.5),
    protocol.PhaseEnded("load", -2.0, 3),
    protocol.Epoch(0, 1.5, None, {}),
    protocol.Epoch(-1, 1e-300, 0.5, {"loss": -1e300, "": 0.0}),
    protocol.Ready(12),
    protocol.Resting("validate"),
    protocol.SliceDone(1, 1e-9),
    protocol.KernelProof("cudnn+xla", "portable", "line one\nline two"),
    protocol.Dataset("digits", "ab" * 32, "scikit-learn", 10**15, 0),
    protocol.EnvironmentFacts({"a": None, "b": True, "c": 3, "d": 0.5, "e": "ä\u2028"}),
    protocol.Artifact("sample.txt", '"quotes" and \\'),
    protocol.Result({"loss": 0.0}),
    protocol.ModelBuilt(0, 0.0),
    protocol.Fingerprint((0.5, -1.25), 0.75, (1.5,), (-0.5,)),
    protocol.Failure("non_finite", "why"),
    protocol.Failure("error", "why", "traceback"),
)
REQUESTS = (
    protocol.TrialRequest("image_rows", "torch/fused"),
    protocol.TrialRequest(
        "a.b:c", "none/noop", {"units": [1, {"x": None}]}, "gpu", 2**70, "ab", "timing", 0.1
    ),
)


def refused(words: str) -> pytest.RaisesExc[protocol.ProtocolError]:
    return pytest.raises(protocol.ProtocolError, match=words)


def test_lines_survive_a_round_trip() -> None:
    assert {type(event) for event in EVENTS} == set(get_args(protocol.Event))
    for event in EVENTS:
        assert protocol.decode_event(protocol.encode_message(event)) == event
        assert "\n" not in protocol.encode_message(event)
    for request in REQUESTS:
        assert protocol.decode_request(protocol.encode_message(request)) == request
        assert not protocol.is_command(protocol.encode_message(request))
    for command in (protocol.Slice(), protocol.Slice(7), protocol.Finish()):
        assert protocol.decode_command(protocol.encode_message(command)) == command
        assert protocol.is_command(protocol.encode_message(command))


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.event)
def test_a_missing_or_unknown_field_is_named(event: protocol.Event) -> None:
    body, missing = json.loads(protocol.encode_message(event)), dataclasses.MISSING
    fields = dataclasses.fields(event)
    for name in [i.name for i in fields if i.default is i.default_factory is missing]:
        with refused(rf"{event.event}\.{name}: this field is missing"):
            protocol.decode_event(
                json.dumps({key: value for key, value in body.items() if key != name})
            )
    with refused(rf"{event.event}\.colour: unknown field"):
        protocol.decode_event(json.dumps({**body, "colour": 1}))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"device": "tpu"}, "request\\.device: .*'cpu' or 'gpu'; received 'tpu'"),
        ({"seed": 1.5}, "request\\.seed: .* valid integer"),
        ({"command": "slice"}, "request\\.command: unknown field"),
        ({"settings": {"x": float("nan")}}, "received NaN"),
    ],
)
def test_a_wrong_request_is_explained(change: dict[str, Any], message: str) -> None:
    with refused(message):
        protocol.decode_request(json.dumps({"workload": "a", "implementation": "a/b", **change}))


@pytest.mark.parametrize("line", ["[]", "[" * 100_000, "", "no JSON", "3"])
def test_a_line_that_is_no_object_is_refused(line: str) -> None:
    assert not protocol.is_command(line)
    for decode in (protocol.decode_request, protocol.decode_command, protocol.decode_event):
        with refused(r"expected (a|one) JSON object"):
            decode(line)


def test_an_unknown_command_or_event_is_refused() -> None:
    with refused("expected one of slice, finish; received None"):
        protocol.decode_command("{}")
    with refused(r"expected one of phase_began, .*; received \['x'\]"):
        protocol.decode_event('{"event": ["x"]}')


@pytest.mark.parametrize(
    "number",
    [
        "1" + "0" * 400,
        "1e999",
        '"1"',
    ],
)
def test_a_number_that_is_no_finite_float_is_refused(number: str) -> None:
    with refused(r"result\.metrics\.loss: .* (valid|finite) number"):
        protocol.decode_event(f'{{"event": "result", "metrics": {{"loss": {number}}}}}')


def test_numbers_of_numpy_are_written_as_numbers() -> None:
    loss: Any = np.float32(0.5)
    sent = protocol.encode_message(protocol.Result(MappingProxyType({"loss": loss})))
    assert protocol.decode_event(sent) == protocol.Result({"loss": 0.5})


@pytest.mark.parametrize(
    "value",
    [
        float("nan"),
        object(),
    ],
)
def test_values_that_json_lacks_are_refused(value: Any) -> None:
    with refused("cannot be written"):
        protocol.encode_message(protocol.Result({"loss": value}))


def context(sent: list[protocol.Event]) -> Context:
    return Context({}, parse_implementation("tensorflow/portable"), "cpu", 0, sent.append)


@pytest.mark.parametrize("name", ["", ".", "..", "../a", "x" * 101])
def test_an_artifact_needs_a_plain_file_name(name: str) -> None:
    sent: list[protocol.Event] = []
    with pytest.raises(ValueError, match=r"artifact: expected a file name .* received"):
        context(sent).artifact(name, "text")
    assert sent == []


def test_artifacts_are_limited_in_number_and_size() -> None:
    sent: list[protocol.Event] = []
    trial = context(sent)
    trial.artifact("large.txt", "ä" * 128 * 1024)  # 2 bytes each
    trial.artifact("large.txt", "a" * 256 * 1024)  # in the place of the first
    with pytest.raises(ValueError, match=r"256 KiB of texts.* 257 KiB with 'more.txt'"):
        trial.artifact("more.txt", "a" * 1024)
    trial.artifact("large.txt", "small")
    for index in range(15):
        trial.artifact(f"{index}.txt", "")
    with pytest.raises(ValueError, match=r"16 texts, and '15.txt' is one more"):
        trial.artifact("15.txt", "")
    assert [event.name for event in sent if isinstance(event, protocol.Artifact)] == [
        *["large.txt"] * 3,
        *(f"{index}.txt" for index in range(15)),
    ]


def test_values_of_epochs_and_facts_are_limited() -> None:
    sent: list[protocol.Event] = []
    trial = context(sent)
    for index in range(25):
        trial.epoch(index, 0.1, **{f"m{number}": 1.0 for number in range(3_999)})
    with pytest.raises(ValueError, match=r"100,001 values .* 100,000"):
        trial.epoch(25, 0.1)
    trial.environment(large="a" * 60 * 1024)
    trial.environment(large="a" * 50 * 1024, small=1)  # in the place of the first
    with pytest.raises(ValueError, match="can have 64"):
        trial.environment(more="a" * 15 * 1024)
    assert len(sent) == 27
