"""Own a child process that speaks lines: start it, write to it, read from it in bounded time, notice its death, end it."""

import os
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from typing import Self

from bakeoff.errors import LoadError

STDERR_TAIL = 2000
ENDING_S = 5.0


class Child:
    """Run `python -m MODULE`; its standard input closes with us, which tells it to end."""

    def __init__(self, module: str, arguments: Sequence[str]) -> None:
        self.name = module
        self._unread = b""
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 (closed in close)
        self._process = subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            bufsize=0,
        )

    @property
    def pid(self) -> int:
        """Return the process's id."""
        return self._process.pid

    def write(self, line: str) -> None:
        """Send one line; raise LoadError when the process is gone."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(line.encode() + b"\n")
        except OSError as e:
            raise self._death() from e

    def read(self, timeout_s: float) -> str:
        """Return the next line; raise LoadError when the process ends or stays silent for too long."""
        deadline = time.monotonic() + timeout_s
        while b"\n" not in self._unread:
            self._receive(deadline, timeout_s)
        line, _, self._unread = self._unread.partition(b"\n")
        return line.decode()

    def close(self) -> None:
        """End the process: close its input, then ask, then force."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        for end in (self._process.terminate, self._process.kill):
            if self._ended():
                break
            end()
        self._process.wait(ENDING_S)
        self._process.stdout.close()
        self._stderr.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _receive(self, deadline: float, timeout_s: float) -> None:
        assert self._process.stdout is not None
        descriptor = self._process.stdout.fileno()
        readable, _, _ = select.select([descriptor], [], [], max(0.0, deadline - time.monotonic()))
        if not readable:
            raise LoadError(f"{self.name} (process {self.pid}) said nothing for {timeout_s:g} s: {self._tail()}")
        chunk = os.read(descriptor, 1 << 16)
        if not chunk:
            raise self._death()
        self._unread += chunk

    def _ended(self) -> bool:
        try:
            self._process.wait(ENDING_S)
        except subprocess.TimeoutExpired:
            return False
        return True

    def _death(self) -> LoadError:
        end = f"ended with exit code {self._process.returncode}" if self._ended() else "closed its pipes but lives on"
        return LoadError(f"{self.name} (process {self.pid}) {end}. Its last words: {self._tail()}")

    def _tail(self) -> str:
        size = self._stderr.seek(0, os.SEEK_END)
        self._stderr.seek(max(0, size - STDERR_TAIL))
        return self._stderr.read().decode("utf-8", "replace").strip() or "nothing on standard error"
