"""Errors of MLflow, its server and its database, as errors of a tracker with what to do next."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from orchestrator.core.errors import one_line
from orchestrator.storage.tracking.mlflow import address
from orchestrator.storage.tracking.tracking_errors import ContentRefused, StoreAway, TrackingError

_SHOWN = 600  # characters of an error: SQLAlchemy quotes whole statements
_CONTENT_ERRORS = ("INVALID_PARAMETER_VALUE", "BAD_REQUEST")
_TOO_LARGE = 413  # HTTP: a proxy or server with a limit on bodies
_FORBIDDEN, _SERVER_ERROR = 403, 500
_WRONG_ADDRESSES = ("Invalid url", "Invalid IPv6 URL", "Could not parse SQLAlchemy URL")


@contextmanager
def mlflow_errors_translated(shown: str, *, content: bool = False) -> Iterator[None]:
    """Raise errors of MLflow inside the block as ours.

    `shown` is the address of the store without passwords. With `content`, content that the store
    rejects becomes `ContentRefused`.
    """
    try:
        yield
    except TrackingError:
        raise
    except Exception as error:
        is_refused = getattr(error, "error_code", "") in _CONTENT_ERRORS
        if content and (is_refused or _http_status(error) == _TOO_LARGE):
            raise ContentRefused(
                f"MLflow store {shown}",
                f"it rejects this: {address.without_mlflow_passwords(one_line(error))[:_SHOWN]}",
                "Raise the server's limit on request bodies, or report this as a bug in rnnsweep",
            ) from error
        raise _to_tracking_error(shown, error) from error


def _to_tracking_error(where: str, error: Exception) -> TrackingError:
    """Return an error of MLflow or its server as ours, with what to do next."""
    received = address.without_mlflow_passwords(one_line(error))[:_SHOWN]
    if "No space left" in received or "disk is full" in received:
        return StoreAway(
            f"MLflow store {where}",
            "its disk is full",
            "Make room, and run the same command again",
        )
    status = _http_status(error)
    next_step = "Check MLFLOW_TRACKING_URI, and that the store is running and can be reached"
    if "maintenance mode" in received:
        next_step = "MLflow no longer supports folders as stores: use sqlite:///PATH or a server"
    elif status == _FORBIDDEN:
        next_step = (
            "The server forbids this: start it with this host in --allowed-hosts, or check your"
            " permissions there"
        )
    if isinstance(error, ImportError):
        next_step = "Install the Python package for this database, or correct MLFLOW_TRACKING_URI"
    is_wrong = isinstance(error, ImportError) or received.startswith(_WRONG_ADDRESSES)
    is_server = where.startswith(("http", "postgresql", "mysql")) and not is_wrong
    kind = StoreAway if is_server and (status is None or status >= _SERVER_ERROR) else TrackingError
    return kind(f"MLflow store {where}", received.rstrip("."), next_step)


def _http_status(error: Exception) -> int | None:
    if match := re.search(r"failed with error code (\d{3}) !=", str(error)):  # no JSON: a proxy's
        return int(match[1])
    if hasattr(error, "get_http_status_code"):  # MLflow's own
        return int(error.get_http_status_code())
    return getattr(getattr(error, "response", None), "status_code", None)  # the HTTP library's
