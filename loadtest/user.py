"""Walk a schedule as a Locust user, so that Locust's statistics and page show latency from the due time."""

from collections.abc import Callable
from typing import Any

from bakeoff.errors import LoadError
from bakeoff.metrics import Outcome
from loadtest.exchange import Exchange
from loadtest.pacing import Report


def schedule_user(walk: Callable[[Report], Any], protocol: str, name: str, finished: Any) -> Any:
    """Return a Locust User class that runs `walk` once and leaves its result in `finished`, a gevent AsyncResult; start one user a process."""
    import gevent
    from locust import User, task
    from locust.exception import StopUser

    class ScheduledUser(User):  # type: ignore[misc]  # locust is not followed
        """Send every request of one worker's share of a run."""

        @task  # type: ignore[untyped-decorator]  # locust is not followed
        def walk(self) -> None:
            report = reporter(self.environment.events.request, protocol, name)
            walking = gevent.spawn(walk, report)
            walking.link(finished)
            try:
                walking.join()
            finally:
                walking.kill()
            raise StopUser

    return ScheduledUser


def reporter(request_event: Any, protocol: str, name: str) -> Report:
    """Return what fires Locust's request event for an exchange."""

    def report(exchange: Exchange) -> None:
        request_event.fire(
            request_type=protocol,
            name=name,
            response_time=exchange.latency_ms,
            response_length=exchange.size,
            exception=None if exchange.outcome is Outcome.OK else LoadError(f"{exchange.outcome}: {exchange.error}"),
            context={},
        )

    return report
