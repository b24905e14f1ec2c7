"""Errors of MLflow, its server and its database, as errors of a tracker with what to do next."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from orchestrator.core.errors import one_line
from orchestrator.storage.tracking.mlflow import address
from orchestrator.storage.tracking.tracking_errors import ContentRefused, StoreAway, TrackingError

_SHOWN = 600  # characters of an error: SQLAlchemy quotes whole statements
_CONTENT_ERRORS = ("INVALID_PARAMETER_VALUE", "BAD_REQUEST")
_OK, _UNAUTHORISED, _FORBIDDEN, _NOT_FOUND = 200, 401, 403, 404
_TOO_LARGE = 413  # HTTP: a proxy or server with a limit on bodies
_SERVER_ERROR = 500
_WRONG_ADDRESSES = ("Invalid url", "Invalid IPv6 URL", "Could not parse SQLAlchemy URL")
# MLflow 3.17, mlflow/utils/rest_utils.py: verify_rest_response, for answers that are no JSON.
_FAILED_REQUEST = re.compile(r"(?:endpoint (\S+) )?failed with error code (\d{3}) !=")
_NO_JSON = "the response body was not in a valid JSON format"
_INVALID_HOST = "Invalid Host header"  # mlflow/server/security_utils.py
_WEB_PAGE = re.compile(r"<(!doctype html|html)\b", re.IGNORECASE)
_GATEWAY = re.compile(r"too many (50[234]) error responses")  # urllib3, after its retries


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
    text = address.without_mlflow_passwords(one_line(error))
    received = text[:_SHOWN]
    if "No space left" in received or "disk is full" in received:
        return StoreAway(
            f"MLflow store {where}",
            "its disk is full",
            "Make room, and run the same command again",
        )
    status = _http_status(error)
    next_step = "Check MLFLOW_TRACKING_URI, and that the store is running and can be reached"
    request, gateway = _FAILED_REQUEST.search(text), _GATEWAY.search(text)
    if request and request[1] and status == _NOT_FOUND:
        received = f"404 for {where.rstrip('/')}{request[1]}"
        next_step = (
            "Correct the path of MLFLOW_TRACKING_URI, or update the server if it is older than the"
            " MLflow that is installed here"
        )
    elif gateway or _WEB_PAGE.search(text):
        received = f"{gateway[1]}" if gateway else f"{status} with a web page{_title(text)}"
        next_step = (
            "A proxy or a login page answers in place of MLflow: check MLFLOW_TRACKING_URI, and"
            " whether the server behind it is running"
        )
    if "maintenance mode" in received:
        next_step = "MLflow no longer supports folders as stores: use sqlite:///PATH or a server"
    elif _INVALID_HOST in text:
        next_step = "Start the server with --allowed-hosts naming the host in this address"
    elif status in (_UNAUTHORISED, _FORBIDDEN):
        next_step = (
            "The server does not allow it: set MLFLOW_TRACKING_TOKEN, or MLFLOW_TRACKING_USERNAME"
            " and MLFLOW_TRACKING_PASSWORD, to an account that may use this store"
        )
    if isinstance(error, ImportError):
        next_step = "Install the Python package for this database, or correct MLFLOW_TRACKING_URI"
    is_wrong = isinstance(error, ImportError) or received.startswith(_WRONG_ADDRESSES)
    is_server = where.startswith(("http", "postgresql", "mysql")) and not is_wrong
    kind = StoreAway if is_server and (status is None or status >= _SERVER_ERROR) else TrackingError
    return kind(f"MLflow store {where}", received.rstrip("."), next_step)


def _title(page: str) -> str:
    """Return the title of a web page in brackets; empty if it has none."""
    title = re.search(r"<title[^>]*>\s*(.{0,80})", page.partition("</title>")[0], re.IGNORECASE)
    return f" ({title[1].strip()})" if title else ""


def _http_status(error: Exception) -> int | None:
    if match := _FAILED_REQUEST.search(str(error)):
        return int(match[2])
    if _NO_JSON in str(error):
        return _OK
    if hasattr(error, "get_http_status_code"):  # MLflow's own
        return int(error.get_http_status_code())
    return getattr(getattr(error, "response", None), "status_code", None)  # the HTTP library's
