"""Put figures into words and numbers, no more precise than they are."""

import math
from collections.abc import Iterable

from loadtest.planning import PERCENTILES, PrimaryMetric
from loadtest.reasons import Finding

ABSENT = "n/a"


def significant(value: float | None, digits: int = 3) -> str:
    """Return a number with so many significant digits and no exponent; absent values as `n/a`."""
    if value is None or not math.isfinite(value):
        return ABSENT
    if value == 0:
        return "0"
    value = float(f"{value:.{digits}g}")
    places = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    return f"{value:,.{places}f}"


def milliseconds(seconds: float | None) -> str:
    """Return a time in milliseconds with three significant digits."""
    return ABSENT if seconds is None else f"{significant(seconds * 1e3)} ms"


def percent(share: float | None, places: int = 1) -> str:
    """Return a share as a percentage."""
    return ABSENT if share is None else f"{share:.{places}%}"


def counted(n: int, thing: str) -> str:
    """Return a number of things, such as `1 run` or `2 runs`."""
    return f"{n:,} {thing}" if n == 1 else f"{n:,} {thing}s"


def ratio_places(low: float, high: float) -> int:
    """Return how many decimal places an interval's width supports: two digits of its half-width, one to four places."""
    half = (high - low) / 2
    if half <= 0:
        return 4
    return min(4, max(1, 1 - math.floor(math.log10(half))))


def interval(value: float, low: float, high: float) -> str:
    """Return a value and its interval, rounded to what the interval's width supports."""
    places = ratio_places(low, high)
    return f"{value:.{places}f} [{low:.{places}f}, {high:.{places}f}]"


def metric_name(metric: PrimaryMetric) -> str:
    """Return a metric's short name, such as `p90 latency`."""
    return f"p{PERCENTILES[metric] * 100:.0f} latency"


def size_of(ratio: float) -> str:
    """Return how far a ratio lies from 1, in whole percent or, when small, tenths."""
    size = abs(ratio - 1) * 100
    return f"{size:.0f}%" if size >= 9.95 else f"{size:.1f}%"


def claim(metric: PrimaryMetric, winner: str, loser: str, ratio: float, low: float, high: float, confidence: float) -> str:
    """Return the sentence of a verdict that names a winner; the ratio, with its interval, is winner over loser and below 1."""
    return (
        f"{winner} is better: its {metric_name(metric)} is {size_of(ratio)} lower than that of {loser} "
        f"({confidence:.0%} interval: {size_of(high)} to {size_of(low)} lower)."
    )


def equivalence(metric: PrimaryMetric, a: str, b: str, effect: float) -> str:
    """Return the sentence of a verdict of equivalence."""
    return f"{a} and {b} are equivalent: their {metric_name(metric)} differs by less than {effect:.0%}, the smallest difference that matters."


def indecision(metric: PrimaryMetric, a: str, b: str, blocks: int, needed: int | None) -> str:
    """Return the sentence of a verdict that leaves the question open."""
    start = f"The data does not decide between {a} and {b} on {metric_name(metric)}."
    if needed is None:
        return f"{start} The difference lies so close to the smallest one that matters that no practical number of blocks would decide."
    more = max(1, needed - blocks)
    return f"{start} At the spread seen, about {counted(more, 'more block')} would probably do."


def invalidity(findings: Iterable[Finding]) -> str:
    """Return the sentence of a verdict that does not count."""
    codes = sorted({finding.reason for finding in findings})
    return f"This comparison does not count: {', '.join(codes)}. No arm is named better."
