"""Know when a single server with a fixed service time and a scripted stall would answer: first come, first served."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Stall:
    """Stop all service for `length_ns`, from `after_ns` after the first request came."""

    after_ns: int
    length_ns: int


@dataclass
class NullQueue:
    """Compute completions in arrival order; all times are in nanoseconds on one clock."""

    service_ns: int
    stall: Stall | None = None
    _first_ns: int | None = None
    _free_ns: int = 0

    def completion(self, arrival_ns: int) -> tuple[int, int]:
        """Return when service of the request that came now begins, and when it ends."""
        if self._first_ns is None:
            self._first_ns = arrival_ns
        begin = self._resumed(max(arrival_ns, self._free_ns))
        self._free_ns = self._interrupted(begin, begin + self.service_ns)
        return begin, self._free_ns

    def _window(self) -> tuple[int, int]:
        assert self.stall is not None
        assert self._first_ns is not None
        opened = self._first_ns + self.stall.after_ns
        return opened, opened + self.stall.length_ns

    def _resumed(self, begin: int) -> int:
        """Move a beginning inside the stall to its end."""
        if self.stall is None:
            return begin
        opened, closed = self._window()
        return closed if opened <= begin < closed else begin

    def _interrupted(self, begin: int, end: int) -> int:
        """Lengthen a service that the stall interrupts."""
        if self.stall is None:
            return end
        opened, closed = self._window()
        return end + closed - opened if begin < opened < end else end
