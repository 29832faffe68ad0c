from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bakeoff.pricing import BoughtPrice, RentedPrice
from loadtest.cost import OFFERED_LOAD, arm_cost, break_even_per_hour, cost_per_million, hourly_cost, ppsd

RENTED = RentedPrice(per_hour=3.6, region="somewhere", dated=date(2026, 1, 2), source="price list")
BOUGHT = BoughtPrice(
    purchase=10_000,
    residual=1_240,
    life_hours=8_760,
    pue=1.5,
    tariff_per_kwh=0.2,
    hosting_per_hour=0.1,
    region="here",
    dated=date(2026, 1, 2),
    source="example",
)
RATE = (100.0, 80.0, 125.0)


def test_a_node_at_3_60_an_hour_that_answers_1000_a_second_costs_1_per_million() -> None:
    # 3.60 an hour is 0.001 a second, and a million requests take 1000 seconds.
    assert cost_per_million(3.6, 1000) == pytest.approx(1.0)


def test_a_fleet_used_to_half_costs_twice_as_much_per_request() -> None:
    assert cost_per_million(3.6, 1000, 0.5) == pytest.approx(2.0)


def test_a_bought_node_costs_its_loss_in_value_its_power_and_its_hosting() -> None:
    # 8,760 lost over 8,760 hours is 1 an hour; 400 W at PUE 1.5 is 0.6 kWh, at 0.2 that is 0.12 an hour.
    assert hourly_cost(BOUGHT, 400) == pytest.approx(1 + 0.12 + 0.1)


def test_a_bought_node_without_measured_power_has_no_cost_and_says_why() -> None:
    cost = arm_cost("x", BOUGHT, None, RATE, 0.01)
    assert cost.per_hour is None
    assert cost.per_million_good is None
    assert "power was not measured" in cost.absent_because


def test_a_bought_node_with_free_electricity_needs_no_power_reading() -> None:
    assert hourly_cost(BOUGHT.model_copy(update={"tariff_per_kwh": 0}), None) == pytest.approx(1.1)


def test_no_price_gives_no_cost() -> None:
    cost = arm_cost("x", None, 300, RATE, 0.01)
    assert (cost.per_hour, cost.per_million_good, cost.ppsd) == (None, None, None)
    assert "no price" in cost.absent_because


def test_no_good_answer_gives_no_cost() -> None:
    cost = arm_cost("x", RENTED, None, (0.0, 0.0, 0.0), None)
    assert cost.per_million_good is None
    assert "no good answers" in cost.absent_because


def test_the_interval_of_the_cost_turns_that_of_the_rate_around() -> None:
    cost = arm_cost("x", RENTED, None, RATE, 0.01)
    assert cost.per_million_good == pytest.approx(10)
    assert (cost.low, cost.high) == (pytest.approx(8), pytest.approx(12.5))


def test_without_a_capacity_the_basis_is_the_offered_load() -> None:
    assert arm_cost("x", RENTED, None, RATE, 0.01).basis == OFFERED_LOAD
    assert arm_cost("x", RENTED, None, RATE, 0.01, utilisation=0.6).basis == "capacity at the SLO, 60% used"


def test_example_prices_are_marked() -> None:
    assert arm_cost("x", BOUGHT, 100, RATE, 0.01).example
    assert not arm_cost("x", RENTED, 100, RATE, 0.01).example


@given(st.floats(0.1, 100), st.floats(1, 1e4), st.floats(1, 1e4))
def test_at_the_break_even_price_both_arms_cost_the_same(per_hour: float, rate_a: float, rate_b: float) -> None:
    price_b = break_even_per_hour(per_hour, rate_a, rate_b)
    assert cost_per_million(price_b, rate_b) == pytest.approx(cost_per_million(per_hour, rate_a))


def test_ppsd_is_tasks_a_second_times_hours_a_unit_of_money() -> None:
    assert ppsd(0.5, 10, 5) == pytest.approx(4)
    assert arm_cost("x", RENTED, None, RATE, 0.01).ppsd == pytest.approx(100 / 3.6)
