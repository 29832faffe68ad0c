import pytest

from bakeoff.errors import ExperimentError
from bakeoff.experiment import parse
from bakeoff.gpus import lookup
from monitoring.pools import CATALOGUE_NAMES, Pools, catalogue_name, parse_pools
from monitoring.prices import gpu_hour_prices

EXAMPLE = {"region": "here", "dated": "2026-01-01", "source": "example"}
EXPERIMENT = parse(
    {
        "name": "e",
        "pools": {
            "cheap": {"accelerator": "L4", "gpus_per_node": 4, "price": {"kind": "rented", "per_hour": 2, **EXAMPLE}},
            "big": {
                "accelerator": "H200-SXM-141GB",
                "gpus_per_node": 8,
                "price": {"kind": "bought", "purchase": 300_000, "residual": 60_000, "life_hours": 30_000, "pue": 1.3,
                          "tariff_per_kwh": 0.2, "hosting_per_hour": 4, "currency": "EUR", **EXAMPLE},
            },
            "cpu": {"accelerator": "cpu", "price": {"kind": "rented", "per_hour": 1, **EXAMPLE}},
        },
        "models": {"m": {"family": "echo"}},
        "arms": [{"model": "m", "precision": "fp32", "pool": pool} for pool in ("cheap", "big", "cpu")],
    },
    "test",
)  # fmt: skip


@pytest.mark.parametrize("product", sorted(CATALOGUE_NAMES))
def test_every_product_name_leads_to_a_catalogue_row(product: str) -> None:
    assert lookup(CATALOGUE_NAMES[product]).name == catalogue_name(product)


def test_a_replayed_card_has_its_originals_row() -> None:
    assert catalogue_name("NVIDIA H200 (SIMULATED)") == "H200-SXM-141GB"


def test_a_card_outside_the_catalogue_has_no_row() -> None:
    assert catalogue_name("NVIDIA GeForce RTX 4090") is None


def test_a_rule_for_the_card_comes_before_the_experiment() -> None:
    pools = parse_pools(["mine=GPU-7", "second=2"], EXPERIMENT)
    assert pools.pool_of("GPU-7", 0, "NVIDIA L4") == "mine"
    assert pools.pool_of("GPU-8", 2, "NVIDIA L4") == "second"
    assert pools.pool_of("GPU-8", 3, "NVIDIA L4") == "cheap"


@pytest.mark.parametrize(
    ("product", "pool"),
    [("Tesla T4", "t4"), ("NVIDIA A100-SXM4-40GB", "a100"), ("NVIDIA GeForce RTX 4090", "geforce-rtx-4090")],
)
def test_without_a_rule_the_pool_is_the_cards_family(product: str, pool: str) -> None:
    assert Pools().pool_of("GPU-1", 0, product) == pool


@pytest.mark.parametrize("rule", ["l4", "=0", "l4="])
def test_a_rule_of_another_form_is_refused(rule: str) -> None:
    with pytest.raises(ExperimentError, match="NAME=UUID or NAME=INDEX"):
        parse_pools([rule])


def test_prices_are_of_one_gpu_and_only_of_gpu_pools() -> None:
    prices = {price.pool: (price.currency, price.per_gpu_hour) for price in gpu_hour_prices(EXPERIMENT)}
    # 240,000 over 30,000 h and 4 an hour of hosting are 12 an hour for 8 cards.
    assert prices == {"cheap": ("USD", 0.5), "big": ("EUR", 1.5)}
