"""What inspections of own models found, kept in the cache: building a model takes a minute.

An inspection is found again as long as everything that it depends on is the same: the request, the
user's code, the packages, this code, the environment, and the files that the user's code read.
"""

import contextlib
import hashlib
import importlib.metadata
import json
from collections.abc import Callable, Mapping
from typing import Any

from pydantic import TypeAdapter, ValidationError

from orchestrator.core.version import ROOT
from workloads.data.cache import atomic_write, cache_folder
from workloads.model_facts import InspectionAnswer, InspectionRequest, ModelFault
from workloads.own_code import file_state, read_code

_ANSWER: TypeAdapter[InspectionAnswer] = TypeAdapter(InspectionAnswer)

_VARIABLES = ("CUDA_VISIBLE_DEVICES", "KERAS_HOME", "PYTHONPATH", "PYTHONHASHSEED")
"""Variables of the environment that may change what a model is, or where it is built."""


def remembered(
    request: InspectionRequest,
    environment: Mapping[str, str],
    inspect: Callable[[], InspectionAnswer],
) -> InspectionAnswer:
    """Return the answer to a request from the cache, or `inspect` and keep what that found.

    Faults of the moment, such as a lack of memory, are not kept. Without a cache that can be
    written, each call inspects.
    """
    code = read_code(request.workload)
    if code is None:  # functions of a session, or code that is not here
        return inspect()
    depends_on = {
        "request": request.to_json(),
        "code": dict(code.digests),
        "folder": str(code.folder),
        "packages": _versions(),
        "ours": _own_state(),
        "environment": {name: environment.get(name) for name in _VARIABLES},
    }
    text = json.dumps(depends_on, sort_keys=True)
    path = cache_folder() / "inspections" / f"{hashlib.sha256(text.encode()).hexdigest()[:24]}.json"
    with contextlib.suppress(OSError, ValidationError):
        answer = _ANSWER.validate_json(path.read_bytes())
        if all(file_state(file) == state for file, state in answer.files.items()):
            return answer
    answer = inspect()
    if not isinstance(answer.found, ModelFault) or answer.found.kind == "refused":
        with contextlib.suppress(OSError), atomic_write(path) as file:
            file.write(_ANSWER.dump_json(answer))
    return answer


def _versions() -> dict[str, str]:
    """Return the version of every installed package: any of them may be part of a model."""
    found = importlib.metadata.distributions()
    return {each.metadata["Name"]: each.version for each in found if each.metadata["Name"]}


def _own_state() -> list[Any]:
    """Return what changes with each change of our own code, in a checkout too."""
    folder = ROOT / "workloads"
    files = sorted(folder.rglob("*.py"))
    return [[str(file.relative_to(folder)), file_state(str(file))] for file in files]
