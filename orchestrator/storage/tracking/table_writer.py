"""When a sweep's table is written, and what the runs are marked with that are written after it."""

from __future__ import annotations

import logging
import tempfile
import time
import uuid
from collections.abc import Iterable, Mapping
from pathlib import Path

from orchestrator.storage.tracking.mlflow_store import Store
from orchestrator.storage.tracking.parquet_table import TABLE_FILE, write_table
from orchestrator.storage.tracking.trial_runs import LATE_TAG, Child, Children

_FEWEST_LATE = 100
_LATE_SHARE = 0.25
"""A table is written anew when this share of it has come since: all of that takes, in a sweep of
any length, about five times what the last one does."""

_PAUSE_S = 300.0

_log = logging.getLogger(__name__)


class Shelf:
    """Keeps the table of one sweep. `late` counts the trials by which it is out of date."""

    def __init__(self, store: Store, parent_id: str, found: Children) -> None:
        """Go on from what is there.

        Raises:
            TrackingError: a table is there that cannot be read, and it cannot be replaced. Whoever
                can read it must not find it without a mark on what is written from here on.
        """
        self._store, self._parent_id = store, parent_id
        self._token, self._next = found.table, _new_token()
        self._is_unsure = False
        self._in_table = found.in_table
        self._pause_until_s = 0.0
        self.late = found.amiss
        if found.damaged:
            self._write(found.kept.values())

    @property
    def is_due(self) -> bool:
        """Whether so much has been written since that reading it takes long."""
        enough = max(_FEWEST_LATE, _LATE_SHARE * self._in_table)
        return self.late >= enough and time.monotonic() >= self._pause_until_s

    @property
    def late_tags(self) -> Mapping[str, str]:
        """The tags of a run that is written now.

        Of a table whose writing ended in an error nobody knows whether it is there.
        """
        tokens = [self._token, self._next if self._is_unsure else None]
        text = " ".join(each for each in tokens if each)
        return {LATE_TAG: text} if text else {}

    def put(self, children: Iterable[Child]) -> None:
        """Write the table, if it lacks anything.

        A table that cannot be written is no loss, only time: it is tried again later.
        """
        if not self.late:
            return
        try:
            self._write(children)
        except Exception as error:  # noqa: BLE001  (a table is no reason to record nothing more)
            self._pause_until_s = time.monotonic() + _PAUSE_S
            _log.warning("the table is written later: %s", error)

    def _write(self, children: Iterable[Child]) -> None:
        rows, unfinished = [], []
        for each in children:
            if each.finished is None:
                unfinished.append(each.run_id)
            else:
                rows.append((each.run_id, each.finished))
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / TABLE_FILE
            write_table(path, self._next, rows, unfinished)
            self._is_unsure = True
            self._store.write_file(self._parent_id, path)
        self._token, self._next, self._is_unsure = self._next, _new_token(), False
        self._in_table, self.late = len(rows), 0


def _new_token() -> str:
    return uuid.uuid4().hex[:12]
