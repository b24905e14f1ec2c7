"""The records of a sweep, in its journal and in the store, while a start of it has both open."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Self

from orchestrator.core.arms import Arm
from orchestrator.core.start_command import StartCommand
from orchestrator.core.trial import SweepIdentity
from orchestrator.planning.plan import Plan
from orchestrator.scheduling.remaining import make_opening
from orchestrator.spec import SweepSpec
from orchestrator.storage import resume
from orchestrator.storage.home import SweepFolder
from orchestrator.storage.journal import Journal, JournalState
from orchestrator.storage.tracking.recorder import Recorder
from orchestrator.storage.tracking.stored_records import Manifest, SweepOpening


@dataclass(frozen=True, slots=True)
class Generation:
    """The generation of a sweep that a start resumes or begins.

    `stored` is what the store has of the sweep, perhaps of a former generation. `sweep_id` is the
    id of this generation in the store, "" if the store does not have it.
    """

    folder: Path
    identity: SweepIdentity
    stored: Manifest | None
    sweep_id: str

    @classmethod
    def find(cls, spec: SweepSpec, folder: SweepFolder, recorder: Recorder, *, fresh: bool) -> Self:
        """Return the latest generation here or in the store, or if `fresh` a new one."""
        latest, stored, sweep_id = recorder.find(spec.name, fresh=fresh)
        number = resume.generation(folder, latest, fresh=fresh)
        identity = resume.identify(spec, number)
        path = folder.generation(number)
        return cls(path, identity, stored, sweep_id if number == latest else "")


@dataclass(slots=True)
class SweepRecords:
    """A sweep in its journal and in the store, which have the same trials.

    `state` is the journal's, and follows it. `code_changes` are the files of the user's code that
    differ from the code of earlier trials. `start` is what the user typed. `declared` is what the
    store was last told of the sweep.
    """

    spec: SweepSpec
    generation: Generation
    journal: Journal
    recorder: Recorder
    state: JournalState
    code_changes: Sequence[str]
    start: StartCommand
    declared: SweepOpening = field(init=False)

    @classmethod
    def open(  # noqa: PLR0913
        cls,
        spec: SweepSpec,
        plan: Plan,
        generation: Generation,
        journal: Journal,
        recorder: Recorder,
        start: StartCommand,
        *,
        same_code: bool,
        take_over: bool,
    ) -> Self:
        """Open the sweep in the journal and in the store, and give each the other's trials.

        Raise `Incomparable` if they have trials of another spec or code, and `LeaseHeld` if another
        driver runs the sweep, unless this one is to `take_over`.
        """
        identity = generation.identity
        # The journal has the new identity afterwards.
        before = journal.state.identity if journal.state else identity
        code_changes = before.code_changes(identity)
        state = resume.take_over(
            journal,
            generation.stored,
            identity,
            spec,
            same_code=same_code,
            sweep_id=generation.sweep_id,
        )
        records = cls(spec, generation, journal, recorder, state, code_changes, start)
        records._merge_with_store(plan, take_over=take_over)
        return records

    @property
    def models(self) -> Path:
        """The folder of the best models of this generation."""
        return self.generation.folder / "models"

    def _merge_with_store(self, plan: Plan, *, take_over: bool) -> None:
        """Open the sweep in the store, and let journal and store have the same trials."""
        resumed = plan.resumed_from(self.state.blocks.values())
        self.declared = self._opening(resumed, begun=False)
        had = {key: finished.ended_s for key, finished in self.state.finished.items()}
        stored, lacking = self.recorder.open(replace(self.declared, takes_over=take_over), had)
        resume.merge_stored(self.journal, stored)
        for key in lacking:
            self.recorder.queue_trial(self.state.finished[key])

    def declare(self, plan: Plan, stopped: Collection[Arm], *, begun: bool) -> None:
        """Tell the store the arms, blocks and repeats again, if they have changed.

        `begun` says whether this start runs trials.
        """
        opening = self._opening(plan, begun=begun)
        # Comparisons of the other arms do not wait for rounds of the stopped ones.
        current = tuple(arm for arm in opening.manifest.current if arm not in stopped)
        opening = replace(opening, manifest=replace(opening.manifest, current=current))
        if _shown_parts(opening) != _shown_parts(self.declared):
            self.recorder.open(opening)
            self.declared = opening

    def _opening(self, plan: Plan, *, begun: bool) -> SweepOpening:
        return make_opening(
            self.spec,
            plan,
            self.generation.identity,
            self.generation.stored,
            start=self.start,
            sweep_id=self.state.sweep_id,
            begun=begun,
        )


def _shown_parts(opening: SweepOpening) -> object:
    """Return what of an opening the store is to have again when it changes."""
    manifest = opening.manifest
    planned = (manifest.blocks, manifest.skipped_blocks, manifest.repeats)
    return manifest.arms, manifest.impossible, frozenset(manifest.running), planned
