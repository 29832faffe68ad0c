"""Turn a price and a measured rate into the cost of a million good requests, a break-even price, and the PPSD index."""

from datetime import date
from typing import Literal

from bakeoff.closed import Closed
from bakeoff.pricing import BoughtPrice, Price

OFFERED_LOAD = "offered load, not capacity"
CAPACITY = "capacity at the SLO"
MILLION = 1e6


class Cost(Closed):
    """State what an arm's good requests cost, or why that is unknown."""

    arm: str
    kind: Literal["rented", "bought"] | None = None
    currency: str | None = None
    per_hour: float | None = None
    """Cost of one node for one hour."""
    per_million_good: float | None = None
    low: float | None = None
    high: float | None = None
    """Interval of per_million_good, from the interval of the rate."""
    basis: str
    """Rate the cost is taken at."""
    ppsd: float | None = None
    """The PPSD index: (1 / median request time in seconds) * (hours / fee of those hours)."""
    price: str = ""
    """Where and when the price holds."""
    example: bool = False
    """Whether the price is an example, not one that was read anywhere."""
    absent_because: str = ""
    """Why there is no cost."""


def cost_per_million(per_hour: float, rate_per_s: float, utilisation: float = 1) -> float:
    """Return the cost of a million good requests: 1e6 * C_h / (3600 * rate * utilisation)."""
    return MILLION * per_hour / (3600 * rate_per_s * utilisation)


def hourly_cost(price: Price, mean_power_w: float | None) -> float | None:
    """Return what one node costs an hour; None for a bought one whose power was not measured but is paid for."""
    if not isinstance(price, BoughtPrice):
        return price.per_hour
    if mean_power_w is None and price.tariff_per_kwh > 0:
        return None
    energy = (mean_power_w or 0) / 1000 * price.pue * price.tariff_per_kwh
    return (price.purchase - price.residual) / price.life_hours + energy + price.hosting_per_hour


def ppsd(task_time_s: float, hours: float, fee: float) -> float:
    """Return (1 / task time) * (available hours / fee): tasks a second, times hours a unit of money buys."""
    return (1 / task_time_s) * (hours / fee)


def break_even_per_hour(per_hour_a: float, rate_a_per_s: float, rate_b_per_s: float) -> float:
    """Return the hourly cost at which B's good requests cost what A's do."""
    return per_hour_a * rate_b_per_s / rate_a_per_s


def arm_cost(
    arm: str,
    price: Price | None,
    mean_power_w: float | None,
    rate: tuple[float | None, float | None, float | None],
    median_s: float | None,
    *,
    utilisation: float | None = None,
) -> Cost:
    """Return an arm's cost; `rate` is its good answers a second with low and high bounds.

    With a `utilisation` the rate is a capacity and a fleet runs at that share of it; without, it is the load that was offered.
    """
    basis = OFFERED_LOAD if utilisation is None else f"{CAPACITY}, {utilisation:.0%} used"
    if price is None:
        return Cost(arm=arm, basis=basis, absent_because="no price: give the pool a `price`")
    per_hour = hourly_cost(price, mean_power_w)
    known = Cost(
        arm=arm,
        kind=price.kind,
        currency=price.currency,
        per_hour=per_hour,
        basis=basis,
        ppsd=None if median_s is None else _price_ppsd(price, median_s),
        price=_provenance(price.region, price.dated, price.source),
        example=price.source.strip().lower() == "example",
    )
    if per_hour is None:
        return known.model_copy(
            update={"absent_because": "mean power was not measured, and a bought node pays for its electricity"}
        )
    mean, low, high = (None if not r else cost_per_million(per_hour, r, utilisation or 1) for r in rate)
    if mean is None:
        return known.model_copy(update={"absent_because": "no good answers to share the cost"})
    return known.model_copy(update={"per_million_good": mean, "low": high, "high": low})


def _price_ppsd(price: Price, median_s: float) -> float:
    if isinstance(price, BoughtPrice):
        return ppsd(median_s, price.life_hours, price.purchase)
    return ppsd(median_s, 1, price.per_hour)


def _provenance(region: str, dated: date, source: str) -> str:
    return f"{region}, {dated.isoformat()}, source: {source}"
