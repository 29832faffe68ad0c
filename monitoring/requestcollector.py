"""Sum the request series that this node's replicas write into a shared folder."""

import logging
import struct
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from monitoring.replicas import forget_dead

if TYPE_CHECKING:
    from prometheus_client.core import Metric as Family

log = logging.getLogger(__name__)

DAMAGED = (OSError, RuntimeError, ValueError, struct.error)
"""What reading a value file raises: a replica is just creating it, or its node stopped in the middle of a write."""


class RequestCollector:
    """Serve the sum over all replicas; counters of replicas that ended stay in it, their gauges do not."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder

    def collect(self) -> Iterable["Family"]:
        """Return the families of one scrape; a file that cannot be read is left out and logged."""
        from prometheus_client.multiprocess import MultiProcessCollector

        forget_dead(self._folder)
        files = sorted(str(path) for path in self._folder.glob("*.db"))
        try:
            families = MultiProcessCollector.merge(files)  # type: ignore[no-untyped-call]
        except DAMAGED:
            families = MultiProcessCollector.merge(list(_readable(files)))  # type: ignore[no-untyped-call]
        return sorted(families, key=lambda family: str(family.name))


def _readable(files: Iterable[str]) -> Iterator[str]:
    from prometheus_client.mmap_dict import MmapedDict

    for name in files:
        try:
            for _ in MmapedDict.read_all_values_from_file(name):  # type: ignore[no-untyped-call]
                pass
        except DAMAGED as e:
            log.warning("left out of this scrape: %s cannot be read: %s", name, e)
        else:
            yield name
