"""Say what an hour of one GPU costs in each pool."""

from dataclasses import dataclass

from bakeoff.experiment import Experiment
from bakeoff.pricing import BoughtPrice, Price


@dataclass(frozen=True)
class GpuHourPrice:
    """Hold a pool's price of one GPU for one hour; of bought nodes without electricity, which depends on the load."""

    pool: str
    currency: str
    per_gpu_hour: float


def gpu_hour_prices(experiment: Experiment) -> tuple[GpuHourPrice, ...]:
    """Return the price of every GPU pool that has one."""
    return tuple(
        GpuHourPrice(name, pool.price.currency, node_hour_cost(pool.price) / pool.gpus_per_node)
        for name, pool in experiment.pools.items()
        if pool.price is not None and not pool.is_cpu
    )


def node_hour_cost(price: Price) -> float:
    """Return the cost of one node for one hour, without electricity."""
    if isinstance(price, BoughtPrice):
        return (price.purchase - price.residual) / price.life_hours + price.hosting_per_hour
    return price.per_hour
