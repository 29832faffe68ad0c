"""Show progress: a bar on a terminal, plain lines elsewhere."""

from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn


class TerminalProgress:
    """Report steps and runs to a console; a context manager."""

    def __init__(self, console: Console) -> None:
        self._console = console
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        self._bar = Progress(*columns, console=console) if console.is_terminal else None
        self._task = None if self._bar is None else self._bar.add_task("runs", total=None, visible=False)

    def __enter__(self) -> Self:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._bar is not None:
            self._bar.stop()

    def say(self, line: str) -> None:
        """Report one step."""
        self._console.print(line, highlight=False)

    def advance(self, done: int, total: int, line: str) -> None:
        """Report that `done` of `total` runs are over."""
        if self._bar is None or self._task is None:
            self._console.print(f"[{done}/{total}] {line}", markup=False, highlight=False)
        else:
            self._bar.update(self._task, description=line, completed=done, total=total, visible=True)
