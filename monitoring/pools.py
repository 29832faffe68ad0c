"""Map a GPU to its pool and to its row of the GPU catalogue."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from bakeoff.errors import ExperimentError
from bakeoff.experiment import Experiment

CATALOGUE_NAMES: Mapping[str, str] = {
    "Tesla T4": "T4",
    "NVIDIA T4": "T4",
    "NVIDIA L4": "L4",
    "NVIDIA A10": "A10",
    "NVIDIA A100-PCIE-40GB": "A100-PCIe-40GB",
    "NVIDIA A100-SXM4-40GB": "A100-SXM4-40GB",
    "NVIDIA A100 80GB PCIe": "A100-PCIe-80GB",
    "NVIDIA A100-SXM4-80GB": "A100-SXM4-80GB",
    "NVIDIA L40S": "L40S",
    "NVIDIA H100 PCIe": "H100-PCIe-80GB",
    "NVIDIA H100 80GB HBM3": "H100-SXM5-80GB",
    "NVIDIA H100 NVL": "H100-NVL-94GB",
    "NVIDIA H200": "H200-SXM-141GB",
    "NVIDIA H200 NVL": "H200-NVL-141GB",
}
"""Catalogue row of each product name, as the driver spells the name."""


def catalogue_name(product: str) -> str | None:
    """Return the catalogue's name of a product, or None for a card the catalogue does not hold."""
    return CATALOGUE_NAMES.get(product.removesuffix(" (SIMULATED)"))


@dataclass(frozen=True)
class Pools:
    """Name each GPU's pool: first by uuid or index, then by catalogue row, then by product name."""

    by_card: Mapping[str, str] = field(default_factory=dict)
    by_accelerator: Mapping[str, str] = field(default_factory=dict)

    def pool_of(self, uuid: str, index: int, product: str) -> str:
        """Return the pool of one GPU; without any rule it is the card's family in lower case, such as `l4`."""
        for card in (uuid, str(index)):
            if card in self.by_card:
                return self.by_card[card]
        row = catalogue_name(product)
        if row is not None and row in self.by_accelerator:
            return self.by_accelerator[row]
        return row.split("-")[0].lower() if row else product.removeprefix("NVIDIA ").lower().replace(" ", "-")


def parse_pools(rules: list[str], experiment: Experiment | None = None) -> Pools:
    """Build pools from `NAME=UUID` or `NAME=INDEX` rules and an experiment; raise ExperimentError on any other form."""
    by_card = {}
    for rule in rules:
        name, equals, card = rule.partition("=")
        if not (name and equals and card):
            raise ExperimentError(f"cannot read the pool rule {rule!r}: write NAME=UUID or NAME=INDEX, such as l4=0")
        by_card[card] = name
    return Pools(by_card, {} if experiment is None else _by_accelerator(experiment))


def _by_accelerator(experiment: Experiment) -> dict[str, str]:
    return {pool.accelerator: name for name, pool in experiment.pools.items() if not pool.is_cpu}
