"""A child's death, silence and refusal are noticed, and its last words are reported."""

import sys

import pytest

from bakeoff.errors import LoadError
from loadtest.child import Child


@pytest.fixture
def module(tmp_path, monkeypatch):
    """Return a way to run a few lines of Python as a module."""
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    def make(code: str) -> str:
        (tmp_path / "spoken.py").write_text(code)
        return "spoken"

    return make


def test_lines_go_both_ways(module):
    with Child(module("import sys\nfor line in sys.stdin: print(line.upper(), end='', flush=True)"), []) as child:
        child.write("one")
        child.write("two")
        assert [child.read(30), child.read(30)] == ["ONE", "TWO"]


def test_a_death_is_reported_with_its_last_words(module):
    with (
        Child(module("import sys; sys.exit('out of luck')"), []) as child,
        pytest.raises(LoadError, match="exit code 1.*out of luck"),
    ):
        child.read(30)


def test_silence_is_reported(module):
    with Child(module("import sys; sys.stdin.read()"), []) as child, pytest.raises(LoadError, match="said nothing for 0.05 s"):
        child.read(0.05)


def test_writing_to_the_dead_is_reported(module):
    with Child(module("import os; os.close(0); print('closed', flush=True)"), []) as child:
        assert child.read(30) == "closed"
        child._process.wait(30)
        with pytest.raises(LoadError, match="ended with exit code 0"):
            child.write("anyone?")


def test_a_closed_child_is_gone(module):
    with Child(module("import sys; sys.stdin.read()"), []) as child:
        process = child._process
    assert process.poll() == 0


def test_the_interpreter_is_ours(module):
    with Child(module("import sys; print(sys.executable, flush=True)"), []) as child:
        assert child.read(30) == sys.executable
