"""Read weights into memory and put them into a network: whole, finite and of that very architecture, or not at all.

Imported only where torch runs.
"""

import pickle
import struct
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from bakeoff.errors import SourceError
from models.source import Stored

State = dict[str, Tensor]
_UNREADABLE = (pickle.UnpicklingError, struct.error, RuntimeError, EOFError, OSError, ValueError, TypeError, LookupError)
"""What torch's restricted unpickler raises for damaged or foreign files."""
_WRAPPERS = ("state_dict", "model", "model_state_dict")


def read(stored: Stored) -> State:
    """Return all tensors by name; raise SourceError when a file is damaged, holds NaN or Inf, or is an unwanted pickle."""
    state: State = {}
    for path in stored.weight_files():
        state |= _read_file(path, stored.allow_pickle)
    _require_finite(state, stored.path)
    return state


def adopt(network: nn.Module, state: State, origin: Path, *, by_order: bool = False) -> None:
    """Load a state dict into a network whose names and shapes it matches; raise SourceError saying what differs.

    With `by_order` names may differ when every shape agrees in order, as between two namings of one architecture.
    """
    own = network.state_dict()
    if by_order and not own.keys() & state.keys() and _same_shapes(own, state):
        state = dict(zip(own, state.values(), strict=True))
    _require_match(own, state, origin)
    network.load_state_dict(state)


def _same_shapes(own: State, state: State) -> bool:
    return [t.shape for t in own.values()] == [t.shape for t in state.values()]


def _require_match(own: State, state: State, origin: Path) -> None:
    problems = [
        *_some("missing", sorted(own.keys() - state.keys())),
        *_some("unexpected", sorted(state.keys() - own.keys())),
        *_some("of another shape", [name for name in own.keys() & state.keys() if own[name].shape != state[name].shape]),
    ]
    if problems:
        raise SourceError(f"{origin} holds weights of another architecture: {'; '.join(problems)}. Check the model's family.")


def _some(what: str, keys: list[str]) -> list[str]:
    return [f"{len(keys)} {what} (first {sorted(keys)[0]!r})"] if keys else []


def _require_finite(state: State, origin: Path) -> None:
    for name, tensor in state.items():
        if tensor.is_floating_point() and not bool(tensor.isfinite().all()):
            raise SourceError(f"{origin}: tensor {name!r} holds NaN or Inf. The weights are damaged; fetch them again.")


def _read_file(path: Path, allow_pickle: bool) -> State:
    if path.suffix == ".safetensors":
        return _read_safetensors(path)
    if not allow_pickle:
        raise SourceError(
            f"{path} is a pickle, which can run code when loaded. Convert it to safetensors, or set allow_pickle: true if you trust it."
        )
    return _read_pickle(path)


def _read_safetensors(path: Path) -> State:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        return load_file(path)
    except (SafetensorError, OSError) as e:
        raise SourceError(f"cannot read {path}: {e}. It is truncated or not a safetensors file; fetch it again.") from e


def _read_pickle(path: Path) -> State:
    try:
        loaded = torch.load(path, map_location="cpu", weights_only=True)
    except _UNREADABLE as e:
        reason = str(e).splitlines()[0] if str(e) else type(e).__name__
        raise SourceError(f"cannot read {path}: {reason}. It is truncated, or holds more than tensors; fetch it again.") from e
    return _unwrapped(loaded, path)


def _unwrapped(loaded: Any, path: Path) -> State:
    for key in _WRAPPERS:
        if isinstance(loaded, dict) and isinstance(loaded.get(key), dict):
            loaded = loaded[key]
    if not isinstance(loaded, dict) or not all(isinstance(value, Tensor) for value in loaded.values()):
        raise SourceError(f"{path} holds no state dict: expected a mapping from names to tensors, found {type(loaded).__name__}")
    return dict(loaded)
