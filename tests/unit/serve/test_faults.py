"""Every error of the tree has a place on the wire."""

import grpc
import pytest

from bakeoff import errors
from serve.protocol.faults import TABLE, fault_of, headers_of, message_of


def descendants(kind):
    return [kind, *(d for sub in kind.__subclasses__() for d in descendants(sub))]


@pytest.mark.parametrize("kind", [*descendants(errors.RequestError), *descendants(errors.ServingError)])
def test_every_request_and_serving_error_maps_by_its_own_or_its_parents_entry(kind):
    assert any(k in TABLE for k in kind.__mro__)


@pytest.mark.parametrize("kind", list(TABLE))
def test_every_code_exists(kind):
    assert TABLE[kind].grpc in grpc.StatusCode.__members__
    assert 400 <= TABLE[kind].http <= 504


def test_client_errors_are_4xx_or_501_and_server_errors_5xx():
    for kind, fault in TABLE.items():
        assert (fault.http < 500 or fault.http == 501) == issubclass(kind, errors.RequestError)


def test_an_unforeseen_error_is_internal_and_tells_no_details():
    assert fault_of(KeyError("secret")).http == 500
    assert message_of(KeyError("secret")) == "internal error: KeyError"


def test_overload_says_when_to_come_back_in_whole_seconds():
    assert headers_of(errors.Overloaded("full", 0.2)) == {"retry-after": "1"}
    assert headers_of(errors.NotReady("no")) == {}
