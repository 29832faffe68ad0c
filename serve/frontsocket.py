"""Talk to a running front door through its runtime socket."""

import socket
from collections.abc import Sequence
from pathlib import Path

from bakeoff.errors import NotReady

TIMEOUT_S = 5.0


class FrontSocket:
    """Send HAProxy runtime commands; one connection a call."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def send(self, commands: Sequence[str]) -> str:
        """Run the commands in order and return what HAProxy printed; raise NotReady when it cannot be reached or objects."""
        try:
            printed = self._exchange("; ".join(commands) + "\n")
        except OSError as e:
            raise NotReady(f"the front door's runtime socket {self._path} does not answer: {e}") from e
        complaints = [line for line in printed.splitlines() if line.strip()]
        if commands[0].startswith("set map") and complaints:
            raise NotReady(f"the front door refused the change: {complaints[0]}")
        return printed

    def _exchange(self, text: str) -> str:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(TIMEOUT_S)
            connection.connect(str(self._path))
            connection.sendall(text.encode())
            chunks = []
            while chunk := connection.recv(65536):
                chunks.append(chunk)
            return b"".join(chunks).decode()
