import pickle
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from bakeoff.errors import SourceError
from models.source import Stored
from models.weights import adopt, read


def network() -> nn.Module:
    return nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2))


def stored(path: Path, allow_pickle: bool = False) -> Stored:
    return Stored(path, "digest", allow_pickle=allow_pickle)


def test_safetensors_round_trip(tmp_path: Path) -> None:
    saved = network().state_dict()
    save_file(saved, tmp_path / "w.safetensors")
    given = network()
    adopt(given, read(stored(tmp_path / "w.safetensors")), tmp_path)
    assert all(torch.equal(given.state_dict()[name], tensor) for name, tensor in saved.items())


def test_shards_of_one_folder_are_joined(tmp_path: Path) -> None:
    saved = network().state_dict()
    for name, tensor in saved.items():
        save_file({name: tensor}, tmp_path / f"{name}.safetensors")
    assert read(stored(tmp_path)).keys() == saved.keys()


def test_a_pickle_needs_the_operators_word(tmp_path: Path) -> None:
    torch.save(network().state_dict(), tmp_path / "w.pth")
    with pytest.raises(SourceError, match="allow_pickle"):
        read(stored(tmp_path / "w.pth"))
    assert len(read(stored(tmp_path / "w.pth", allow_pickle=True))) == 4


def test_a_state_dict_inside_a_checkpoint_is_found(tmp_path: Path) -> None:
    torch.save({"state_dict": network().state_dict(), "epoch": 3}, tmp_path / "w.pt")
    assert len(read(stored(tmp_path / "w.pt", allow_pickle=True))) == 4


class Mischief:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return (exec, ("raise SystemExit",))


def test_a_pickle_that_would_run_code_is_refused_even_when_pickles_are_allowed(tmp_path: Path) -> None:
    (tmp_path / "w.pth").write_bytes(pickle.dumps(Mischief(), protocol=2))
    with pytest.raises(SourceError, match="holds more than tensors"):
        read(stored(tmp_path / "w.pth", allow_pickle=True))


def test_something_else_than_a_state_dict_is_refused(tmp_path: Path) -> None:
    torch.save([1, 2], tmp_path / "w.pt")
    with pytest.raises(SourceError, match="found list"):
        read(stored(tmp_path / "w.pt", allow_pickle=True))


@pytest.mark.parametrize("name", ["w.safetensors", "w.pth"])
@pytest.mark.parametrize("kept", [0, 7, 60, 0.9])
def test_a_truncated_file_is_a_source_error(tmp_path: Path, name: str, kept: float) -> None:
    path = tmp_path / name
    save_file(network().state_dict(), path) if name.endswith("safetensors") else torch.save(network().state_dict(), path)
    whole = path.read_bytes()
    path.write_bytes(whole[: int(kept if kept >= 1 else kept * len(whole))])
    with pytest.raises(SourceError, match="truncated"):
        read(stored(path, allow_pickle=True))


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_weights_that_are_not_finite_are_refused_by_name(tmp_path: Path, bad: float) -> None:
    state = network().state_dict()
    state["1.weight"][0, 0] = bad
    save_file(state, tmp_path / "w.safetensors")
    with pytest.raises(SourceError, match=r"'1\.weight' holds NaN or Inf"):
        read(stored(tmp_path / "w.safetensors"))


def test_weights_of_another_architecture_are_refused_with_what_differs(tmp_path: Path) -> None:
    state = network().state_dict()
    state["head.weight"] = state.pop("1.weight")
    state["0.bias"] = torch.zeros(5)
    with pytest.raises(SourceError) as raised:
        adopt(network(), state, tmp_path)
    for part in ("1 missing (first '1.weight')", "1 unexpected (first 'head.weight')", "1 of another shape (first '0.bias')"):
        assert part in str(raised.value)


def test_another_naming_of_the_same_shapes_fits_only_where_order_is_trusted(tmp_path: Path) -> None:
    state = {f"other.{name}": tensor for name, tensor in network().state_dict().items()}
    with pytest.raises(SourceError, match="another architecture"):
        adopt(network(), dict(state), tmp_path)
    adopt(network(), state, tmp_path, by_order=True)
    with pytest.raises(SourceError, match="another architecture"):
        adopt(network(), dict(list(state.items())[:3]), tmp_path, by_order=True)
