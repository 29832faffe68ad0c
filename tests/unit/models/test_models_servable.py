from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bakeoff.errors import RequestError
from models.servable import Signature, TensorSpec, batch_buckets, example_batch, require_within

SIGNATURE = Signature((TensorSpec("ids", "INT64", (-1,), (0, 9), 8),), ())


@given(st.integers(1, 1024))
def test_buckets_rise_by_doubling_and_end_at_the_maximum(largest: int) -> None:
    buckets = batch_buckets(largest)
    assert buckets[0] == 1
    assert buckets[-1] == largest
    assert all(a < b <= 2 * a for a, b in pairwise(buckets))


@given(ids=st.lists(st.integers(-3, 12), min_size=1, max_size=10))
def test_ids_pass_exactly_when_all_are_in_their_limits_and_few_enough(ids: list[int]) -> None:
    batch = {"ids": np.array([ids])}
    if len(ids) <= 8 and all(0 <= i <= 9 for i in ids):
        require_within(SIGNATURE, batch)
    else:
        with pytest.raises(RequestError):
            require_within(SIGNATURE, batch)


def test_an_empty_batch_is_within_every_limit() -> None:
    require_within(SIGNATURE, {"ids": np.zeros((0, 4), dtype=np.int64)})


@given(n=st.integers(1, 5), length=st.integers(1, 8))
def test_an_example_is_valid(n: int, length: int) -> None:
    batch = example_batch(SIGNATURE, n, np.random.default_rng(0), length)
    assert batch["ids"].shape == (n, length)
    require_within(SIGNATURE, batch)
