"""Describe what an hour of a pool's node costs, rented or bought."""

from datetime import date
from typing import Annotated, Literal

from pydantic import Field

from bakeoff.closed import Closed


class RentedPrice(Closed):
    """State a dated, regional price of the whole machine."""

    kind: Literal["rented"] = "rented"
    per_hour: float = Field(gt=0)
    """Price of one node for one hour, in `currency`."""
    currency: str = Field(default="USD", pattern="^[A-Z]{3}$")
    """ISO 4217 code."""
    region: str
    """Region or site the price holds for."""
    dated: date
    """Day on which the price was read."""
    source: str
    """Where the price was read; say `example` for a figure that is none."""


class BoughtPrice(Closed):
    """State what owning a node costs: purchase spread over its life, plus running it."""

    kind: Literal["bought"] = "bought"
    purchase: float = Field(gt=0)
    """Cards plus their share of the server, in `currency`."""
    residual: float = Field(default=0, ge=0)
    """Value left at the end of its life, in `currency`."""
    life_hours: float = Field(gt=0)
    """Hours the purchase is spread over."""
    pue: float = Field(ge=1)
    """Power usage effectiveness of the site."""
    tariff_per_kwh: float = Field(ge=0)
    """Electricity price a kilowatt hour, in `currency`."""
    hosting_per_hour: float = Field(default=0, ge=0)
    """Space, network and support an hour, in `currency`."""
    currency: str = Field(default="USD", pattern="^[A-Z]{3}$")
    """ISO 4217 code."""
    region: str
    """Site the price holds for."""
    dated: date
    """Day on which the price was read."""
    source: str
    """Where the price was read; say `example` for a figure that is none."""


Price = Annotated[RentedPrice | BoughtPrice, Field(discriminator="kind")]
