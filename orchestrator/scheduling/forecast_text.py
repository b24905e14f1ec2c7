"""A forecast in words: what is done, what the rest may take here and on other fleets."""

from collections.abc import Iterator, Sequence

from orchestrator.core.text import counted, duration
from orchestrator.scheduling.forecast import Amount, FleetForecast, Forecast

_KWH_J = 3.6e6


def describe_forecast(
    ahead: Forecast, fleets: Sequence[FleetForecast] = (), *, at_most: bool = False
) -> str:
    """Return how much is done, what the rest may take here and on fleets, and what predicts that.

    With `at_most` a sweep may end with fewer trials (`search.configs: auto`, or a pruner).
    """
    lines = [*_lines_here(ahead, at_most)]
    for fleet in fleets:
        lines += _lines_there(ahead, fleet)
    return "\n".join(lines)


def _lines_here(ahead: Forecast, at_most: bool) -> Iterator[str]:
    """Yield the lines about the present nodes."""
    overhead = f"{duration(ahead.overhead_s)} to start, to load backends and to report"
    if ahead.done and not ahead.remaining:
        yield f"all {counted(ahead.done, 'trial')} are done"
    elif not ahead.remaining:
        yield "nothing can run on the present nodes"
    elif ahead.seconds is None:
        yield f"it may take {overhead}; the rest is known once each arm has run a few trials"
    else:
        rest = f"{'at most ' if at_most else ''}{ahead.remaining}"
        yield (
            f"{ahead.done} trials are done; the other {rest} may take {_time_range(ahead.seconds)},"
            f" of which {overhead}"
        )
        if ahead.usd:
            yield f"  and cost {_range(ahead.usd)} USD, with all nodes for all of that time"
        if ahead.energy_j:
            yield f"  and take {_range(ahead.energy_j, _KWH_J)} kWh in their timed epochs"
        if ahead.model_error is None:
            yield "  judged by the mean of each arm's trials"
        else:
            error_pct = 100 * ahead.model_error
            yield (
                f"  judged by their sizes: off by {error_pct:.0f} % in the median on configs not"
                " shown to the model"
            )


def _lines_there(ahead: Forecast, fleet: FleetForecast) -> Iterator[str]:
    """Yield the lines about a fleet, compared with the present nodes."""
    there = fleet.forecast
    if there.seconds is None:
        yield f"with {fleet.name}: no trial is missing"
        return
    here = f" instead of {duration(ahead.seconds.value)}" if ahead.seconds else ""
    trials = counted(there.remaining, "trial")
    yield f"with {fleet.name}: {_time_range(there.seconds)}{here} for {trials}"
    if there.usd:
        instead = f" instead of {ahead.usd.value:.3g}" if ahead.usd else ""
        yield f"  costs {_range(there.usd)} USD{instead}"
    shares = (f"{name} {100 * share:.0f} %" for name, share in there.idle.items())
    yield f"  idle: {'; '.join(shares)}"
    for arm in fleet.lacking:
        yield f"  cannot run {arm}"


def _time_range(time: Amount) -> str:
    """Return `5 min 0 s (4 min 30 s to 6 min 0 s)`."""
    return f"{duration(time.value)} ({duration(time.low)} to {duration(time.high)})"


def _range(amount: Amount, unit: float = 1.0) -> str:
    """Return `1.2 (1 to 1.5)`, in this unit."""
    value, low, high = (number / unit for number in (amount.value, amount.low, amount.high))
    return f"{value:.3g} ({low:.3g} to {high:.3g})"
