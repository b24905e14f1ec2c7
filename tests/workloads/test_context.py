"""What a workload may report."""

import pytest

from workloads import protocol
from workloads.backends.kernel_evidence import Proof, report_kernel
from workloads.context import NOT_MEASURED, Context, expect_distinct, expect_possible
from workloads.failures import NonFinite
from workloads.implementations import parse_implementation


def reporting_to(events: list[protocol.Event]) -> Context:
    implementation = parse_implementation("python/plain")
    return Context({}, implementation, device="cpu", seed=1, emit=events.append)


@pytest.mark.parametrize(
    "names", [("loss", ""), ("loss", " "), ("Loss", "loss"), ("Step_ms",)], ids=repr
)
def test_names_of_metrics_are_names_of_columns(names: tuple[str, ...]) -> None:
    expect_distinct(("step_ms", "loss", "f1"))
    with pytest.raises(ValueError, match=repr(names[-1])):
        expect_distinct(names)


def test_metrics_of_epochs_have_such_names_too() -> None:
    trial = reporting_to([])
    trial.epoch(0, 1.0, loss=1.0)
    with pytest.raises(ValueError, match="'Loss'"):
        trial.epoch(1, 1.0, Loss=1.0)


def test_no_time_and_no_rate_is_negative() -> None:
    expect_possible({"val_loss": -1.0, "own_s": -1.0, "step_ms": 0.0}, "result")
    with pytest.raises(ValueError, match="step_ms is -1"):
        expect_possible({"step_ms": -1.5}, "result")


def test_what_fails_beside_the_training_is_absent_with_its_reason() -> None:
    events = list[protocol.Event]()
    trial = reporting_to(events)
    with trial.optional("predict_s"), trial.phase("predict"):
        raise RuntimeError("no kernel\nof this kind")
    assert trial.absent == {"predict_s": "RuntimeError: no kernel"}
    assert trial.seconds == {}
    began, ended, text = events
    assert isinstance(began, protocol.PhaseBegan) and isinstance(ended, protocol.PhaseEnded)
    assert text == protocol.Artifact(NOT_MEASURED, "predict_s: RuntimeError: no kernel\n")
    with pytest.raises(NonFinite), trial.optional("fingerprint"):
        raise NonFinite("outputs: nan")


def test_a_kernel_whose_evidence_fails_is_unknown() -> None:
    events = list[protocol.Event]()

    def prove() -> Proof:
        raise KeyError("scope")

    report_kernel(reporting_to(events), prove)
    assert isinstance(proof := events[-1], protocol.KernelProof)
    assert (proof.asked, proof.ran) == ("plain", "unknown")
    assert "KeyError" in proof.evidence
