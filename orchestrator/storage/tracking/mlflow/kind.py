"""How MLflow's stores are found and opened. Imports no MLflow until one is opened."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator.storage.tracking.mlflow import address as addresses

if TYPE_CHECKING:
    from orchestrator.storage.tracking.mlflow.store import MlflowStore


class MlflowKind:
    """MLflow's stores: a SQLite file in the sweep home, another database, or a server."""

    SCHEMES = (*addresses.DATABASES, "http", "https", "file", "databricks")
    """Schemes of MLflow's own addresses, for which no other kind is searched."""

    @staticmethod
    def default_address(home: Path, environ: Mapping[str, str]) -> str:
        """Return MLFLOW_TRACKING_URI, or the address of the SQLite file in the sweep home."""
        return addresses.default_mlflow_uri(home, environ)

    def open(self, address: str) -> "MlflowStore":
        """Open a store to read it."""
        from orchestrator.storage.tracking.mlflow.store import MlflowStore  # noqa: PLC0415

        return MlflowStore(address)

    def create(self, address: str, home: Path) -> "MlflowStore":
        """Open a store to write to it; a SQLite file that does not exist is made."""
        from orchestrator.storage.tracking.mlflow.store import MlflowStore  # noqa: PLC0415

        return MlflowStore(address, home)

    def local_path(self, address: str) -> Path | None:
        """Return the file of a SQLite store."""
        return addresses.sqlite_path(address)

    def shown(self, text: str) -> str:
        """Return an address, or a text that quotes one, without passwords."""
        return addresses.without_mlflow_passwords(text)

    def prepare(self) -> None:
        """Import MLflow, which takes seconds."""
        from orchestrator.storage.tracking.mlflow.store import import_mlflow  # noqa: PLC0415

        import_mlflow()
