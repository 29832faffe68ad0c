"""The policy in simulated time: what must hold for every arrival pattern."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bakeoff.errors import Overloaded, RequestError
from serve.batching import BatchQueue, Limits, Waiting


def waiting(i, items=1, shape="a", arrived_s=0.0, deadline_s=None):
    return Waiting(i, items, shape, arrived_s, deadline_s)


def test_a_free_slot_takes_everything_that_waits_up_to_the_limit():
    queue = BatchQueue(Limits(4, 0, 100))
    for i in range(6):
        queue.offer(waiting(i))
    assert queue.decide(0).batch == (0, 1, 2, 3)
    assert queue.decide(0).batch == (4, 5)
    assert queue.decide(0).batch == ()


def test_without_delay_a_lone_request_runs_at_once():
    queue = BatchQueue(Limits(32, 0, 100))
    queue.offer(waiting(7, arrived_s=3.0))
    assert queue.decide(3.0).batch == (7,)


def test_with_delay_a_lone_request_waits_for_others_and_no_longer():
    queue = BatchQueue(Limits(4, 0.010, 100))
    queue.offer(waiting(0, arrived_s=1.0))
    early = queue.decide(1.004)
    assert early.batch == ()
    assert early.look_again_s == 1.010
    assert queue.decide(1.010).batch == (0,)


def test_a_full_batch_never_waits():
    queue = BatchQueue(Limits(2, 10.0, 100))
    queue.offer(waiting(0))
    queue.offer(waiting(1))
    assert queue.decide(0).batch == (0, 1)


def test_a_batch_that_the_next_request_does_not_fit_does_not_wait_either():
    queue = BatchQueue(Limits(4, 10.0, 100))
    queue.offer(waiting(0, items=3))
    queue.offer(waiting(1, items=2))
    assert queue.decide(0).batch == (0,)


def test_requests_of_another_shape_wait_for_their_own_batch():
    queue = BatchQueue(Limits(8, 0, 100))
    for i, shape in enumerate("abab"):
        queue.offer(waiting(i, shape=shape))
    assert queue.decide(0).batch == (0, 2)
    assert queue.decide(0).batch == (1, 3)


def test_an_expired_request_is_reported_and_never_runs():
    queue = BatchQueue(Limits(8, 0, 100))
    queue.offer(waiting(0, deadline_s=1.0))
    queue.offer(waiting(1))
    decision = queue.decide(1.0)
    assert decision.expired == (0,)
    assert decision.batch == (1,)


def test_a_request_over_the_batch_limit_is_refused_with_both_numbers():
    with pytest.raises(RequestError, match="9 items.*at most 8"):
        BatchQueue(Limits(8, 0, 100)).offer(waiting(0, items=9))


def test_a_full_queue_refuses_and_says_when_to_come_back():
    queue = BatchQueue(Limits(1, 0, 2))
    queue.offer(waiting(0))
    queue.offer(waiting(1))
    with pytest.raises(Overloaded, match="2 requests wait") as refused:
        queue.offer(waiting(2), retry_after_s=3.0)
    assert refused.value.retry_after_s == 3.0
    assert queue.decide(0).batch == (0,)


def test_a_withdrawn_request_frees_its_place():
    queue = BatchQueue(Limits(1, 0, 1))
    queue.offer(waiting(0))
    assert queue.withdraw(0)
    assert not queue.withdraw(0)
    queue.offer(waiting(1))
    assert queue.decide(0).batch == (1,)


arrivals = st.lists(
    st.tuples(
        st.floats(0, 0.02),  # gap to the one before
        st.integers(1, 4),  # items
        st.sampled_from("ab"),  # shape
        st.none() | st.floats(0, 0.05),  # timeout
    ),
    max_size=40,
)


@given(arrivals, st.integers(4, 8), st.floats(0, 0.03), st.floats(0.001, 0.03))
def test_every_request_ends_exactly_once_within_limits_and_in_order(requests, max_batch, delay_s, service_s):
    queue = BatchQueue(Limits(max_batch, delay_s, 1000))
    now, pending, given_requests = 0.0, [], {}
    for i, (gap, items, shape, timeout) in enumerate(requests):
        now += gap
        request = Waiting(i, items, shape, now, None if timeout is None else now + timeout)
        given_requests[i] = request
        pending.append(request)
    ran, expired, clock = [], [], 0.0
    while len(ran) + len(expired) < len(given_requests):
        while pending and pending[0].arrived_s <= clock:
            queue.offer(pending.pop(0))
        decision = queue.decide(clock)
        expired += decision.expired
        for i in decision.expired:
            assert given_requests[i].deadline_s <= clock
        batch = [given_requests[i] for i in decision.batch]
        assert sum(r.items for r in batch) <= max_batch
        assert len({r.shape for r in batch}) <= 1
        assert all(r.deadline_s is None or r.deadline_s > clock for r in batch)
        ran += decision.batch
        if batch:
            clock += service_s
            continue
        candidates = [decision.look_again_s] if decision.look_again_s is not None else []
        candidates += [pending[0].arrived_s] if pending else []
        if candidates:
            assert min(candidates) > clock
            clock = min(candidates)
    assert sorted([*ran, *expired]) == sorted(given_requests)
    assert len(queue) == 0
    for shape in "ab":
        order = [i for i in ran if given_requests[i].shape == shape]
        assert order == sorted(order)


@given(arrivals, st.integers(4, 8), st.floats(0.001, 0.03))
def test_no_request_waits_past_its_delay_while_the_slot_is_free(requests, max_batch, delay_s):
    queue = BatchQueue(Limits(max_batch, delay_s, 1000))
    clock = 0.0
    for i, (gap, items, shape, _) in enumerate(requests):
        clock += gap
        queue.offer(Waiting(i, items, shape, clock))
        while (decision := queue.decide(clock)).batch:
            pass
        if decision.look_again_s is not None:
            assert decision.look_again_s <= clock + delay_s
