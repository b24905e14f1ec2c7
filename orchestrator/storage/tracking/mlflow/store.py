"""The one file that uses MLflow, as the tracker of a sweep.

A sweep's name is an experiment, and its files are artifacts.

MLflow is imported on demand, which takes three seconds: SQLite files are read without it. Every
error of MLflow is raised as a `TrackingError` (`mlflow_errors`).
"""

import fcntl
import functools
import json
import logging
import os
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

from orchestrator.core.trial import DatasetRecord, canonical, digest
from orchestrator.storage.tracking.limits import entity_name
from orchestrator.storage.tracking.mlflow import (
    address,
    mlflow_names,
    moved_homes,
    sqlite_client,
    ui_views,
)
from orchestrator.storage.tracking.mlflow.mlflow_errors import mlflow_errors_translated
from orchestrator.storage.tracking.stored_records import SOURCE_TAG, Answer, Manifest
from orchestrator.storage.tracking.tracker import Point, RunStatus, StoredRun, TrialContent
from orchestrator.storage.tracking.tracking_errors import TrackingError
from orchestrator.storage.tracking.trial_content import param_texts

# MLflow 3.17, mlflow/utils/validation.py: MAX_METRICS_PER_BATCH, MAX_PARAMS_TAGS_PER_BATCH,
# MAX_DATASET_NAME_SIZE, MAX_DATASET_DIGEST_SIZE.
_METRICS_PER_BATCH = 1000
_PARAMS_PER_BATCH = 100
_DATASET_NAME_LIMIT = 500
_DATASET_DIGEST_LIMIT = 36
_DATASET_SOURCE_LIMIT = 10_000  # of 65,535 bytes: JSON may need six for a character
_RUNS_PER_PAGE = 500
_ANALYSED_ROWS = 1000
_ANALYSE_WAIT_S = 2.0
_CONTENT_METHODS = ("create_run", "log_batch", "log_inputs", "log_text")
_RETRIES = "MLFLOW_HTTP_REQUEST_MAX_RETRIES"
_KERAS_MODEL = {
    "flavors": {
        "keras": {"data": "data", "save_exported_model": False},
        "python_function": {"loader_module": "mlflow.keras"},
    }
}
"""The file `MLmodel` of a model in `data/model.keras` (MLflow 3.17, mlflow/keras/save.py)."""
_MODEL_TRAINING = {"mlflow.experimentKind": "custom_model_development"}
"""The kind of experiment for which MLflow's UI shows runs and charts, not traces and prompts."""


class MlflowStore:
    """A connection to a store of MLflow: its `Tracker`, whose protocol documents the methods."""

    def __init__(self, uri: str, home: Path | None = None) -> None:
        """Connect, or raise `TrackingError`.

        With a `home` the store can be written: a SQLite file is made if need be, and the artifacts
        of a database are kept in the home.
        """
        self.uri = uri
        self.shown = address.without_mlflow_passwords(uri)
        self._home = home
        self._quick = None if home else sqlite_client.client_of(uri)
        client: Any = self._quick
        if client is None:
            address.set_defaults(os.environ)  # it reads some when imported, some at each request
            with mlflow_errors_translated(self.shown), _creation_lock(uri):
                if home and (file := address.sqlite_path(uri)):
                    moved_homes.correct_addresses(file, home)
                if address.is_database(uri):
                    _probe(uri)  # MLflow itself tries for 100 s
                client = import_mlflow().MlflowClient(tracking_uri=uri)
        self._client = _Client(client, self.shown)

    def sweep_names(self) -> list[str]:
        """Return the names of all experiments, without the one that MLflow makes itself."""
        return [entity.name for entity in self._experiments() if entity.name != "Default"]

    def sweep_runs(self, name: str | None = None) -> list[StoredRun]:
        """Return the runs of all generations of a sweep, or of all sweeps."""
        if name is None:
            ids = [str(entity.experiment_id) for entity in self._experiments()]
        else:
            experiment = self._experiment(name)
            ids = [experiment] if experiment else []
        return list(self._search(ids, mlflow_names.SWEEP_RUNS)) if ids else []

    def create_sweep_run(
        self, sweep: str, name: str, start_ms: int, tags: Mapping[str, str]
    ) -> StoredRun:
        """Make the run of a generation, and the experiment of the sweep if it has none."""
        experiment = self._experiment(sweep) or self._create_experiment(sweep)
        return self._create_run(experiment, name, start_ms, tags)

    def trial_runs(
        self,
        sweep_run: StoredRun,
        *,
        tag: tuple[str, str] | None = None,
        status: RunStatus | None = None,
        deleted: bool = False,
    ) -> Iterator[StoredRun]:
        """Yield the runs of a sweep's trials in order of their start, page by page."""
        conditions = [mlflow_names.trial_runs_filter(sweep_run.run_id)]
        if tag is not None:
            conditions.append(f"tags.`{mlflow_names.mlflow_tag(tag[0])}` = '{tag[1]}'")
        if status is not None:
            conditions.append(f"attributes.status = '{mlflow_names.mlflow_status(status)}'")
        return self._search([sweep_run.experiment_id], " and ".join(conditions), deleted=deleted)

    def create_trial_run(self, sweep_run: StoredRun, content: TrialContent) -> StoredRun:
        """Make the run of a trial, in the colour of its arm."""
        tags = {
            mlflow_names.PARENT_TAG: sweep_run.run_id,
            **content.tags,
            **ui_views.colour_tags(content.arm_index),
        }
        return self._create_run(sweep_run.experiment_id, content.name, content.start_ms, tags)

    def run(self, run_id: str) -> StoredRun:
        """Return one run."""
        return _to_stored_run(self._client.get_run(run_id))

    def log(
        self,
        run_id: str,
        *,
        params: Mapping[str, str] | None = None,
        tags: Mapping[str, str] | None = None,
        points: Sequence[Point] = (),
    ) -> None:
        """Add to a run, in as few requests as MLflow's limits allow."""
        entities = import_mlflow().entities
        metrics = [entities.Metric(at.name, at.value, at.at_ms, at.step) for at in points]
        texts = [entities.Param(key, value) for key, value in (params or {}).items()]
        mlflow_tags = _mlflow_tags(tags or {})
        labels = [entities.RunTag(key, value) for key, value in mlflow_tags.items()]
        few, many = _PARAMS_PER_BATCH, _METRICS_PER_BATCH - 2 * _PARAMS_PER_BATCH
        while metrics or texts or labels:
            self._client.log_batch(run_id, metrics[:many], texts[:few], labels[:few])
            metrics, texts, labels = metrics[many:], texts[few:], labels[few:]

    def log_dataset(self, run_id: str, dataset: DatasetRecord) -> None:
        """Name the data that a run trained on, as MLflow's dataset input."""
        entities = import_mlflow().entities
        is_web = dataset.source.startswith(("http://", "https://"))
        profile = {"samples": dataset.samples, "validation_samples": dataset.validation_samples}
        entity = entities.Dataset(
            name=dataset.name[:_DATASET_NAME_LIMIT] or "data",
            digest=dataset.digest[:_DATASET_DIGEST_LIMIT] or "unknown",
            source_type="http" if is_web else "local",
            source=canonical({"url" if is_web else "uri": dataset.source[:_DATASET_SOURCE_LIMIT]}),
            profile=canonical(profile),
        )
        use = entities.InputTag("mlflow.data.context", "training")
        self._client.log_inputs(run_id, [entities.DatasetInput(entity, [use])])

    def log_model(self, run: StoredRun, folder: Path) -> None:
        """Log a model, in MLflow's format if it is one of Keras.

        After an error the model of the first try is completed.
        """
        with tempfile.TemporaryDirectory() as name:
            target = Path(name)
            shutil.copytree(folder, target / "data")
            if (folder / "model.keras").exists():
                (target / "MLmodel").write_text(json.dumps(_KERAS_MODEL))  # JSON is YAML
            self._log_model(run, target)

    def _log_model(self, run: StoredRun, folder: Path) -> None:
        model_id = run.tags.get(mlflow_names.MODEL_TAG, "").removeprefix("models:/")
        if not model_id:
            name = f"block-{run.tags['block']}"
            made = self._client.create_logged_model(run.experiment_id, name, run.run_id)
            model_id = str(made.model_id)
            self.log(run.run_id, tags={mlflow_names.MODEL_TAG: f"models:/{model_id}"})
            self._client.log_outputs(
                run.run_id, [import_mlflow().entities.LoggedModelOutput(model_id, 0)]
            )
        uri = self._client.get_logged_model(model_id).artifact_location
        self._expect_below(uri, self._location(run.experiment_id))
        self._client.log_model_artifacts(model_id, str(folder))
        self._client.finalize_logged_model(model_id, "READY")

    def delete_tag(self, run_id: str, name: str) -> None:
        """Remove a tag that the run has."""
        self._client.delete_tag(run_id, mlflow_names.mlflow_tag(name))

    def set_status(self, run_id: str, status: RunStatus, end_ms: int | None = None) -> None:
        """Set a run's status; with `end_ms` it has ended."""
        word = mlflow_names.mlflow_status(status)
        if end_ms is None:
            self._client.update_run(run_id, status=word)
        else:
            self._client.set_terminated(run_id, status=word, end_time=end_ms)

    def delete_run(self, run_id: str) -> None:
        """Mark a run as deleted; MLflow keeps it until `mlflow gc`."""
        self._client.delete_run(run_id)

    def write_file(self, run_id: str, path: str, content: str | Path) -> None:
        """Write a text, or a copy of a file, as an artifact, and replace one of that path."""
        self._expect_own_location(run_id)
        if isinstance(content, str):
            self._client.log_text(run_id, content, path)
            return
        with tempfile.TemporaryDirectory() as folder:
            local = Path(folder) / Path(path).name
            local.symlink_to(content.absolute())  # the artifact has the link's name
            parent = str(Path(path).parent)
            self._client.log_artifact(run_id, str(local), None if parent == "." else parent)

    def files(self, run_id: str) -> list[str]:
        """Return the names of the files and folders at the top of a run's artifacts."""
        self._expect_own_location(run_id)
        return [info.path for info in self._client.list_artifacts(run_id)]

    @contextmanager
    def file(self, run_id: str, path: str) -> Iterator[Path]:
        """Give an artifact as a file that exists while the context lasts."""
        self._expect_own_location(run_id)
        if self._quick:
            with mlflow_errors_translated(self.shown):
                local = self._quick.folder(run_id) / path
                local.open("rb").close()  # or raise
            yield local
            return
        with tempfile.TemporaryDirectory() as folder:
            with mlflow_errors_translated(self.shown):
                local = import_mlflow().artifacts.download_artifacts(
                    run_id=run_id, artifact_path=path, dst_path=folder, tracking_uri=self.uri
                )
            yield Path(local)

    def _expect_own_location(self, run_id: str) -> None:
        """Refuse a run whose artifacts are not below its experiment: any folder could be meant."""
        if self._quick:
            with mlflow_errors_translated(self.shown):
                self._expect_below(*self._quick.locations(run_id))
        else:
            info = self._client.get_run(run_id).info
            self._expect_below(info.artifact_uri, self._location(info.experiment_id))

    def _location(self, experiment_id: str) -> str:
        """Return where the artifacts of an experiment are."""
        return str(self._client.get_experiment(experiment_id).artifact_location)

    def _expect_below(self, uri: str, location: str) -> None:
        if not address.lies_below(uri, location):
            raise TrackingError(
                self.shown,
                f"a run has its artifacts in {uri}, outside of its experiment ({location})",
                "Somebody has changed the store: restore a copy, or delete this run in MLflow",
            )

    def show_sweep(
        self, run_id: str, manifest: Manifest, settings: set[str], answer: Answer | None
    ) -> None:
        """Write the view of the sweep in MLflow's UI, and its answer with links."""
        experiment = self.run(run_id).experiment_id
        self._tag_experiment(experiment, ui_views.view_tags(run_id, manifest, settings))
        if answer is None:
            return
        links = ui_views.markdown_links(experiment, run_id)
        # From its list of experiments MLflow's UI opens, whatever the kind of the experiment, the
        # view that the browser had last, at first one for traces. That shows two lines of this.
        self._describe_experiment(experiment, f"{links}\n\n{answer.description}")
        note = f"{answer.description}\n{links}\n"
        run, params = self.run(run_id), param_texts(answer.params)
        now_ms = round(time.time() * 1000)
        # A param cannot change. What differs in a later session, such as a version, is a tag.
        changed = {key: text for key, text in params.items() if run.params.get(key, text) != text}
        self.log(
            run_id,
            params={key: text for key, text in params.items() if key not in run.params},
            tags={
                mlflow_names.NOTE_TAG: note,
                SOURCE_TAG: answer.source,
                **{f"latest.{key}": text for key, text in changed.items()},
            },
            points=[
                Point(entity_name(name), value, now_ms, 0) for name, value in answer.metrics.items()
            ],
        )

    def settle(self) -> None:
        """Update the statistics of a SQLite store, which make MLflow's queries fast.

        A sample of each index is enough. Another writer has priority: the next sweep updates them.
        """
        path = address.sqlite_path(self.uri)
        if path is None:
            return
        with suppress(sqlite3.Error):
            target = f"{path.absolute().as_uri()}?mode=rw"
            with closing(sqlite3.connect(target, _ANALYSE_WAIT_S, uri=True)) as database:
                database.execute(f"PRAGMA analysis_limit = {_ANALYSED_ROWS}")
                database.execute("ANALYZE")

    def _experiments(self) -> Iterator[Any]:
        return _pages(self.shown, self._client.search_experiments, max_results=1000)

    def _experiment(self, name: str) -> str | None:
        entity = self._client.get_experiment_by_name(name)
        if entity is None:
            return None
        if entity.lifecycle_stage != "active":
            raise TrackingError(
                self.shown,
                f"the experiment {name!r} was deleted in MLflow",
                f"Restore it (`mlflow experiments restore -x {entity.experiment_id}`), delete it"
                " for good (`mlflow gc`), or give the sweep another name",
            )
        return str(entity.experiment_id)

    def _create_experiment(self, name: str) -> str:
        """Make an experiment, or find one that somebody made meanwhile; return its id."""
        root = address.artifact_root(self._home, self.uri) if self._home else None
        location = root.as_uri() if root else None
        try:
            with _without_retries():
                return str(self._client.create_experiment(name, location, _MODEL_TRAINING))
        except TrackingError:
            experiment_id = self._experiment(name)
            if experiment_id is None:
                raise
            return experiment_id

    def _tag_experiment(self, experiment_id: str, tags: Mapping[str, str]) -> None:
        for key, value in tags.items():
            self._client.set_experiment_tag(experiment_id, key, value)

    def _describe_experiment(self, experiment_id: str, text: str) -> None:
        """Set an experiment's description, unless a person has written another one."""
        tags = self._client.get_experiment(experiment_id).tags
        before = tags.get(mlflow_names.NOTE_TAG, "")
        if not before or digest(before) == tags.get(mlflow_names.NOTE_DIGEST_TAG):
            described = {mlflow_names.NOTE_TAG: text, mlflow_names.NOTE_DIGEST_TAG: digest(text)}
            self._tag_experiment(experiment_id, described)

    def _create_run(
        self, experiment_id: str, name: str, start_ms: int, tags: Mapping[str, str]
    ) -> StoredRun:
        with _without_retries():
            # A retried POST whose first answer was only late would make a second run.
            all_tags = {**mlflow_names.SOURCE_TAGS, **_mlflow_tags(tags)}
            run = self._client.create_run(experiment_id, start_ms, all_tags, name)
        return StoredRun(run.info.run_id, experiment_id, name, "running", start_ms, dict(tags))

    def _search(
        self, experiment_ids: Sequence[str], filter_text: str, *, deleted: bool = False
    ) -> Iterator[StoredRun]:
        """Yield active runs, or those deleted in MLflow, in order of start, page by page."""
        pages = _pages(
            self.shown,
            self._client.search_runs,
            experiment_ids=list(experiment_ids),
            filter_string=filter_text,
            run_view_type=2 if deleted else 1,  # of `mlflow.entities.ViewType`
            max_results=_RUNS_PER_PAGE,
            order_by=["attributes.start_time ASC"],
        )
        return map(_to_stored_run, pages)


class _Client:
    """MLflow's client, with errors as ours."""

    def __init__(self, client: Any, shown: str) -> None:
        self._client = client
        self._shown = shown

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self._client, name)

        def call(*arguments: Any, **options: Any) -> Any:
            with mlflow_errors_translated(self._shown, content=name in _CONTENT_METHODS):
                return method(*arguments, **options)

        return call


@functools.cache
def import_mlflow() -> Any:
    """Import MLflow, which takes seconds, and return it."""
    address.set_defaults(os.environ)  # MLflow reads them when it is imported
    import mlflow  # noqa: PLC0415
    import mlflow.artifacts  # noqa: PLC0415

    for chatty in ("mlflow", "alembic"):
        logging.getLogger(chatty).setLevel(logging.ERROR)
    return mlflow


def _pages(shown: str, search: Callable[..., Any], **options: Any) -> Iterator[Any]:
    token: str | None = None
    while True:
        page = search(**options, page_token=token)
        with mlflow_errors_translated(shown):
            yield from page
        token = getattr(page, "token", None)  # `SqliteClient` has no pages
        if not token:
            return


def _to_stored_run(run: Any) -> StoredRun:
    """Return a run of MLflow as the tracker's type; a `StoredRun` as it is."""
    if isinstance(run, StoredRun):
        return run
    info = run.info
    return StoredRun(
        info.run_id,
        info.experiment_id,
        info.run_name or "",
        mlflow_names.run_status(info.status),
        info.start_time or 0,
        mlflow_names.tags_of(run.data.tags),
        dict(run.data.params),
        dict(run.data.metrics),
        info.end_time or 0,
    )


def _mlflow_tags(tags: Mapping[str, str]) -> dict[str, str]:
    named = {mlflow_names.mlflow_tag(name): text for name, text in tags.items()}
    if commit := tags.get("git_commit"):
        named[mlflow_names.COMMIT_TAG] = commit
    return named


def _probe(uri: str) -> None:
    import sqlalchemy  # noqa: PLC0415  (comes with MLflow)

    engine = sqlalchemy.create_engine(uri)
    try:
        sqlalchemy.inspect(engine).get_table_names()
    finally:
        engine.dispose()


@contextmanager
def _creation_lock(uri: str) -> Iterator[None]:
    """Lock the making of a SQLite store: its first use runs migrations, which race."""
    path = address.sqlite_path(uri)
    if path is None:
        yield
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    if not os.access(path.parent, os.W_OK):
        yield  # an archived store: nobody can be making it
        return
    # A store may be shared, so the lock may be another user's; but a link is not followed.
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    lock = os.open(f"{path}.lock", flags, 0o666)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


@contextmanager
def _without_retries() -> Iterator[None]:
    """Switch off retries, which MLflow reads from the environment at every request."""
    before = os.environ.get(_RETRIES)
    os.environ[_RETRIES] = "0"
    try:
        yield
    finally:
        if before is None:
            del os.environ[_RETRIES]
        else:
            os.environ[_RETRIES] = before
