"""The end of a start: everything is in the tracking store, together with a report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from orchestrator.core.records import SweepRecord
from orchestrator.core.stop_signal import Stopped
from orchestrator.core.trial import SweepIdentity, Telemetry
from orchestrator.spec import SweepSpec
from orchestrator.storage.tracking.recorder import Recorder
from orchestrator.storage.tracking.records import TAG_LIMIT

_DRAIN_S = 300.0
"""How long a complete sweep waits for its tracking store."""

_CLOSE_S = 60.0
"""How long a complete sweep waits for its report to be stored."""

_STOPPED_DRAIN_S, _STOPPED_READ_S = 10.0, 30.0
"""How long a stopped sweep waits: the next start records what is missing."""


@dataclass(frozen=True, slots=True)
class RunResult:
    """The end of a start of a sweep.

    `record` is what the tracking store has now. `refused` are the reasons, by trial key, why the
    store will never take some finished trials. `curves` is the telemetry for a report, by run.
    """

    record: SweepRecord
    stopped: Stopped | None
    refused: Mapping[str, str] = field(default_factory=dict)
    curves: Mapping[str, Telemetry] = field(default_factory=dict)


def finish_sweep(
    recorder: Recorder, spec: SweepSpec, identity: SweepIdentity, stopped: Stopped | None
) -> RunResult:
    """Wait until everything is recorded, read it back, and store the report with it.

    Raises:
        NotRecorded: the store was too slow or not available; nothing is lost.
        LeaseHeld: another driver has taken over the sweep.
        TrackingError: the store cannot be reached or used.
    """
    from orchestrator.analysis.arms.over_time import representatives  # noqa: PLC0415
    from orchestrator.report.brief import to_short_markdown  # noqa: PLC0415  (SciPy)
    from orchestrator.report.formats.html import to_html  # noqa: PLC0415
    from orchestrator.report.render import render, summarise  # noqa: PLC0415

    recorder.drain(_STOPPED_DRAIN_S if stopped else _DRAIN_S)
    state: Literal["stopped", "complete"] = "stopped" if stopped else "complete"
    limit_s = _STOPPED_READ_S if stopped else None
    record = recorder.read(spec.name, identity.generation, timeout_s=limit_s)
    record = replace(record, state=state)
    curves = recorder.curves(representatives(record), timeout_s=limit_s)
    summary = summarise(record, spec.baseline, curves)
    recorder.close(
        state,
        {
            "report.md": render(summary, "markdown"),
            "report.txt": render(summary, "text"),
            "report.json": render(summary, "json"),
            "report.html": to_html(summary),
        },
        description=to_short_markdown(
            summary, TAG_LIMIT, "the artifacts report.html and report.md"
        ),
        timeout_s=_STOPPED_DRAIN_S if stopped else _CLOSE_S,
    )
    return RunResult(record, stopped, recorder.refused, curves)
