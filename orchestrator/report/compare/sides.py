"""One side of a comparison: a sweep from the store, or a saved report in JSON."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from orchestrator.analysis.arms.mathematics import different_arms
from orchestrator.analysis.pairing.baselines import baseline_of_spec
from orchestrator.core.arms import Arm
from orchestrator.core.errors import Refusal
from orchestrator.core.formats import written_by
from orchestrator.core.json_text import parse_json
from orchestrator.core.records import SweepRecord
from orchestrator.report.formats.json_format import REPORT


class InvalidSide(Refusal):
    """An argument of `compare` that cannot be compared."""

    __module__ = "rnnsweep"


@dataclass(frozen=True, slots=True)
class Side:
    """A sweep with its name for the reader; a report file lacks the margins of its spec.

    The arms of `different_mathematics` compute something else than the baseline of their sweep.
    """

    label: str
    record: SweepRecord
    different_mathematics: frozenset[Arm] = frozenset()
    is_file: bool = False

    @property
    def arms(self) -> tuple[Arm, ...]:
        """The arms that can run, in the spec's order, and arms of earlier starts."""
        return tuple(dict.fromkeys([*self.record.arms, *(t.arm for t in self.record.trials)]))


def side_of(label: str, record: SweepRecord) -> Side:
    """Return a sweep from the store as a side."""
    return Side(label, record, different_arms(record.trials, baseline_of_spec(record)))


def read_report(path: Path) -> Side:
    """Read what `rnnsweep report SWEEP -o FILE.json` wrote; InvalidSide for any other file."""
    try:
        content = parse_json(path.read_bytes())
        kind, number = content.get("format"), content.get("version")
        if kind == REPORT.id and not REPORT.reads(number):
            writer = written_by(content.get("written_by"))
            raise InvalidSide(REPORT.refusal(str(path), number, writer))
        if kind == REPORT.id:
            content = REPORT.migrate(content, number)
            record = TypeAdapter(SweepRecord).validate_python(_as_record(content))
            different = _different_mathematics(content)
            label = f"{content['sweep']['label']} ({path.name})"
            return Side(label, record, different, is_file=True)
        reason = f"its format is {kind!r}"
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        reason = f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}"
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        reason = f"{type(error).__name__}: {error}"
    raise InvalidSide(
        f"{path}: cannot be read as a report ({reason}). Write one with "
        "`rnnsweep report SWEEP -o FILE.json`"
    )


def _as_record(content: dict[str, Any]) -> dict[str, Any]:
    """Lay out a report as the record of its sweep."""
    head = content["sweep"]
    return {
        **head,
        "arms": [item["arm"] for item in content["arms"]],
        "impossible": [],
        "expected_trials": head["trials"]["expected"],
        "trials": [_as_trial(entry) for entry in content["trials"]],
    }


def _different_mathematics(content: dict[str, Any]) -> frozenset[Arm]:
    """Return the arms that compute something else than their reference, as the report found."""
    arms = [
        row["arm"]
        for row in content["arms"]
        if row["mathematics"] is not None and row["mathematics"]["is_different"]
    ]
    return TypeAdapter(frozenset[Arm]).validate_python(arms)


def _as_trial(entry: dict[str, Any]) -> dict[str, Any]:
    """Lay out a trial as a record has it, with the figures that are compared."""
    kept = ("status", "started_s", "ended_s", "trainer_trials", "disturbance")
    outcome = {name: entry[name] for name in kept}
    outcome["metrics"] = {k: value for k, value in entry["metrics"].items() if value is not None}
    if entry["failure_reason"]:
        failure = {"reason": entry["failure_reason"], "message": entry["failure_message"] or ""}
        outcome["failure"] = failure
    trial = {**entry, "key": entry["trial_key"]}
    return {"trial": trial, "outcome": outcome, "run_id": entry["run_id"]}
