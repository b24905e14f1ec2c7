"""A tracker of plain files, as a package from outside could have one: no MLflow anywhere.

Each run is a folder with `run.json` and the run's files. It is a whole implementation of the
protocol: every process that knows the folder reads what another one wrote.
"""

import itertools
import json
import shutil
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from orchestrator.core.trial import DatasetRecord
from orchestrator.storage.tracking.errors import StoreMissing, TrackingError
from orchestrator.storage.tracking.records import SOURCE_TAG, Answer, Manifest
from orchestrator.storage.tracking.tracker import (
    Point,
    RunStatus,
    StoredRun,
    Tracker,
    TrialContent,
)
from orchestrator.storage.tracking.trial_content import param_texts

SCHEME = "files://"


class FilesKind:
    """Trackers at addresses such as `files:///data/runs`."""

    def open(self, address: str) -> Tracker:
        folder = self.local_path(address)
        if not folder.is_dir():
            raise StoreMissing(str(folder), "a folder of runs", "no such folder", "Run a sweep")
        return FilesTracker(folder)

    def create(self, address: str, home: Path) -> Tracker:
        self.local_path(address).mkdir(parents=True, exist_ok=True)
        return FilesTracker(self.local_path(address))

    def local_path(self, address: str) -> Path:
        return Path(address.removeprefix(SCHEME))

    def shown(self, text: str) -> str:
        return text

    def prepare(self) -> None:
        """Import nothing: the standard library is enough."""


class FilesTracker:
    """A folder with a folder for each run."""

    def __init__(self, folder: Path) -> None:
        self.shown = str(folder)
        self._folder = folder

    def sweep_names(self) -> list[str]:
        return sorted({run.experiment_id for run in self._runs()})

    def sweep_runs(self, name: str | None = None) -> list[StoredRun]:
        runs = (run for run in self._runs() if name in (None, run.experiment_id))
        return [run for run in runs if "parent" not in self._content(run.run_id)]

    def create_sweep_run(
        self, sweep: str, name: str, start_ms: int, tags: Mapping[str, str]
    ) -> StoredRun:
        return self._create(StoredRun("", sweep, name, "running", start_ms, dict(tags)))

    def trial_runs(
        self,
        sweep_run: StoredRun,
        *,
        tag: tuple[str, str] | None = None,
        status: RunStatus | None = None,
        deleted: bool = False,
    ) -> Iterator[StoredRun]:
        for run in self._runs(deleted=deleted):
            has_tag = tag is None or run.tags.get(tag[0]) == tag[1]
            is_own = self._content(run.run_id).get("parent") == sweep_run.run_id
            if is_own and has_tag and status in (None, run.status):
                yield run

    def create_trial_run(self, sweep_run: StoredRun, content: TrialContent) -> StoredRun:
        made = StoredRun(
            "", sweep_run.experiment_id, content.name, "running", content.start_ms, content.tags
        )
        return self._create(made, parent=sweep_run.run_id)

    def run(self, run_id: str) -> StoredRun:
        return StoredRun(**self._content(run_id)["run"])

    def log(
        self,
        run_id: str,
        *,
        params: Mapping[str, str] | None = None,
        tags: Mapping[str, str] | None = None,
        points: Sequence[Point] = (),
    ) -> None:
        run = self.run(run_id)
        latest = sorted(points, key=lambda point: (point.step, point.at_ms))
        changed = replace(
            run,
            params={**run.params, **(params or {})},
            tags={**run.tags, **(tags or {})},
            metrics={**run.metrics, **{point.name: point.value for point in latest}},
        )
        self._change(run_id, run=asdict(changed))

    def delete_tag(self, run_id: str, name: str) -> None:
        run = self.run(run_id)
        tags = {key: text for key, text in run.tags.items() if key != name}
        self._change(run_id, run=asdict(replace(run, tags=tags)))

    def log_dataset(self, run_id: str, dataset: DatasetRecord) -> None:
        self._change(run_id, dataset=asdict(dataset))

    def set_status(self, run_id: str, status: RunStatus, end_ms: int | None = None) -> None:
        changed = replace(self.run(run_id), status=status, end_ms=end_ms or 0)
        self._change(run_id, run=asdict(changed))

    def delete_run(self, run_id: str) -> None:
        self._change(run_id, deleted=True)

    def restore_run(self, run_id: str) -> None:
        """Bring a deleted run back."""
        self._change(run_id, deleted=False)

    def write_file(self, run_id: str, path: str, content: str | Path) -> None:
        target = self._folder / run_id / "files" / path
        target.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, Path):
            shutil.copy(content, target)
        else:
            target.write_text(content)

    def files(self, run_id: str) -> list[str]:
        folder = self._folder / run_id / "files"
        return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []

    @contextmanager
    def file(self, run_id: str, path: str) -> Iterator[Path]:
        local = self._folder / run_id / "files" / path
        if not local.is_file():
            raise TrackingError(str(local), "a file", "none", "Look for it")
        yield local

    def log_model(self, run: StoredRun, folder: Path) -> None:
        target = self._folder / run.run_id / "files" / "model"
        shutil.copytree(folder, target, dirs_exist_ok=True)

    def show_sweep(
        self, run_id: str, manifest: Manifest, settings: set[str], answer: Answer | None
    ) -> None:
        if answer is None:
            return
        run = self.run(run_id)
        self.write_file(run_id, "answer.md", answer.description)
        points = [Point(name, value, 0, 0) for name, value in answer.metrics.items()]
        params = {**param_texts(answer.params), **run.params}
        self.log(run_id, params=params, tags={SOURCE_TAG: answer.source}, points=points)

    def settle(self) -> None:
        """Do nothing: there is no index."""

    def _runs(self, *, deleted: bool = False) -> list[StoredRun]:
        ids = [path.name for path in self._folder.iterdir() if (path / "run.json").exists()]
        kept = [run_id for run_id in ids if self._content(run_id).get("deleted", False) == deleted]
        return sorted(map(self.run, kept), key=lambda run: (run.start_ms, run.run_id))

    def _create(self, run: StoredRun, **content: str) -> StoredRun:
        run_id = uuid.uuid4().hex
        (self._folder / run_id).mkdir()
        made = replace(run, run_id=run_id)
        self._write(run_id, {"run": asdict(made), **content})
        return made

    def _content(self, run_id: str) -> dict[str, Any]:
        try:
            content: dict[str, Any] = json.loads((self._folder / run_id / "run.json").read_text())
        except FileNotFoundError as error:
            raise TrackingError(self.shown, f"the run {run_id}", "none", "Look for it") from error
        return content

    def _change(self, run_id: str, **content: object) -> None:
        self._write(run_id, self._content(run_id) | content)

    def _write(self, run_id: str, content: Mapping[str, object]) -> None:
        new = self._folder / run_id / f"new-{next(_NUMBERS)}"
        new.write_text(json.dumps(content))
        new.replace(self._folder / run_id / "run.json")


_NUMBERS = itertools.count()
