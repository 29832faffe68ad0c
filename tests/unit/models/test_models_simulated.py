import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from bakeoff.errors import RequestError
from bakeoff.hosting import SimulatedEngine
from models.simulated import EchoServable, wait_until


@given(arrays(np.float32, st.tuples(st.integers(1, 8), st.integers(0, 16))))
def test_echo_answers_with_its_input(batch: np.ndarray) -> None:
    answer = EchoServable(SimulatedEngine()).run({"INPUT0": batch})
    np.testing.assert_array_equal(answer["OUTPUT0"], batch)


def test_the_service_time_is_a_fixed_part_and_a_part_for_each_item() -> None:
    echo = EchoServable(SimulatedEngine(service_time_s=0.003, per_item_s=0.001))
    assert echo.service_time_s(4) == pytest.approx(0.007)


def test_a_batch_blocks_for_its_service_time_and_seldom_longer() -> None:
    echo = EchoServable(SimulatedEngine(service_time_s=0.004, per_item_s=0.001))
    batch = {"INPUT0": np.zeros((2, 1), dtype=np.float32)}
    taken = []
    for _ in range(20):
        began = time.monotonic()
        echo.run(batch)
        taken.append(time.monotonic() - began)
    assert min(taken) >= 0.006
    assert min(taken) < 0.007


def test_a_wait_for_the_past_returns_at_once() -> None:
    began = time.monotonic()
    wait_until(began - 1)
    assert time.monotonic() - began < 0.5


def test_metadata_says_that_figures_are_simulated() -> None:
    assert EchoServable(SimulatedEngine()).metadata["simulated"] == "true"


def test_a_missing_input_is_the_requests_fault() -> None:
    with pytest.raises(RequestError, match="INPUT0"):
        EchoServable(SimulatedEngine()).run({"x": np.zeros((1, 1), dtype=np.float32)})
