"""Every exchange becomes one row, and every protocol code one outcome."""

import grpc
import pytest

from bakeoff.metrics import Outcome
from loadtest.exchange import CLIENT_TIMEOUT, NEVER_SENT, Exchange, grpc_outcome, http_outcome, json_part
from loadtest.plan import RunSpec

SPEC = RunSpec(run=3, arm="arm-a", block=1, position=0, seed=1, rate_per_s=1, run_s=1, timeout_s=1)


@pytest.mark.parametrize(
    ("status", "outcome"),
    [
        (200, "ok"),
        (302, "error"),
        (400, "client_error"),
        (404, "client_error"),
        (408, "timeout"),
        (413, "client_error"),
        (429, "rejected"),
        (500, "error"),
        (501, "error"),
        (502, "error"),
        (503, "rejected"),
        (504, "timeout"),
    ],
)
def test_http_statuses_map_to_outcomes(status, outcome):
    assert http_outcome(status) == outcome


@pytest.mark.parametrize(
    ("code", "outcome"),
    [
        ("OK", "ok"),
        ("CANCELLED", "cancelled"),
        ("UNKNOWN", "error"),
        ("INVALID_ARGUMENT", "client_error"),
        ("DEADLINE_EXCEEDED", "timeout"),
        ("NOT_FOUND", "client_error"),
        ("ALREADY_EXISTS", "client_error"),
        ("PERMISSION_DENIED", "client_error"),
        ("RESOURCE_EXHAUSTED", "rejected"),
        ("FAILED_PRECONDITION", "client_error"),
        ("ABORTED", "error"),
        ("OUT_OF_RANGE", "client_error"),
        ("UNIMPLEMENTED", "error"),
        ("INTERNAL", "error"),
        ("UNAVAILABLE", "rejected"),
        ("DATA_LOSS", "error"),
        ("UNAUTHENTICATED", "client_error"),
    ],
)
def test_every_grpc_code_maps_to_an_outcome(code, outcome):
    assert grpc_outcome(grpc.StatusCode[code].value[0]) == outcome


def test_an_exchange_that_never_ended_is_a_timeout_that_was_never_sent():
    row = Exchange(seq=4, due_ns=10).record(SPEC, items=2)
    assert (row.run, row.arm, row.block, row.seq, row.due_ns, row.items) == (3, "arm-a", 1, 4, 10, 2)
    assert (row.outcome, row.sent_ns, row.done_ns, row.error) == (Outcome.TIMEOUT, None, None, NEVER_SENT)


@pytest.mark.parametrize(("sent_ns", "error"), [(None, NEVER_SENT), (11, CLIENT_TIMEOUT)])
def test_a_timeout_says_whether_the_request_left(sent_ns, error):
    exchange = Exchange(seq=0, due_ns=10, sent_ns=sent_ns)
    exchange.time_out(20)
    assert (exchange.record(SPEC, 1).error, exchange.done_ns) == (error, 20)


def test_what_the_answer_says_is_recorded_and_what_it_does_not_say_is_absent():
    exchange = Exchange(seq=0, due_ns=0, outcome=Outcome.OK, parameters={"arm": "arm-b", "batch_size": 8, "queue_ns": True})
    row = exchange.record(SPEC, 1)
    assert (row.served_by, row.batch_size, row.queue_ns, row.execution_ns, row.gpu_uuid) == ("arm-b", 8, None, None, None)


@pytest.mark.parametrize(
    ("body", "length", "found"),
    [
        (b'{"a":1}rest', "7", {"a": 1}),
        (b'{"a":1}', None, {"a": 1}),
        (b"[1]", None, None),
        (b"<html>", None, None),
        (b'{"a":1}', "x", None),
        (b"\xff\xfe", "2", None),
    ],
)
def test_the_json_part_is_found_or_absent(body, length, found):
    assert json_part(body, length) == found
