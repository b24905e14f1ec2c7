"""The versions of packages with which the trials of a sweep ran."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from orchestrator.core.trial import FinishedTrial
from workloads.backends.registry import backends

_PACKAGES = "packages"
"""The fact with the packages that the user's code imports: `keras 3.15.1, numpy 2.4.6`."""


def mixed_versions(trials: Iterable[FinishedTrial]) -> Mapping[str, tuple[str, ...]]:
    """Return the versions of each package that complete trials have in more than one version.

    Versions are in the order of the trials' ends. A package counts where a trial recorded it.
    """
    names = {"python", "keras", "numpy"}
    for backend in backends().values():
        names |= {backend.package, *backend.recorded_distributions}
    found = defaultdict[str, dict[str, None]](dict)
    complete = (trial for trial in trials if trial.status == "complete")
    for trial in sorted(complete, key=lambda trial: trial.outcome.ended_s):
        facts = trial.outcome.environment
        of_trial = {**dict(_packages(str(facts.get(_PACKAGES, "")))), **facts}
        for name in (names & facts.keys()) | (of_trial.keys() - facts.keys()):
            found[name][str(of_trial[name])] = None
    return {name: (*versions,) for name, versions in sorted(found.items()) if len(versions) > 1}


def _packages(text: str) -> Iterator[tuple[str, str]]:
    for package in text.split(", "):
        name, blank, version = package.partition(" ")
        if blank:
            yield name, version
