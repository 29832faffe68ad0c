"""Read what a folder of image weights says of itself: timm's or transformers' configuration files.

Imported only where torch runs.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from bakeoff.errors import SourceError
from models.preprocessing import Preprocessing

CLASSES = 1000
_TIMM_NAMES = {"efficientnet-lite0": ("tf_efficientnet_lite0", "efficientnet_lite0"), "resnet50": ("resnet50",)}
_RESNET50 = {"layer_type": "bottleneck", "depths": [3, 4, 6, 3], "hidden_sizes": [256, 512, 1024, 2048]}


@dataclass(frozen=True)
class FolderNetwork:
    """Hold an empty network and the preprocessing its weights ask for, where the folder says so."""

    body: nn.Module
    preprocessing: Preprocessing | None


class Logits(nn.Module):
    """Answer with the logits of a transformers classifier."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, pixels: Tensor) -> Tensor:
        """Return (n, classes)."""
        logits: Tensor = self.model(pixel_values=pixels).logits
        return logits

    def load_state_dict(self, state_dict: Any, strict: bool = True, assign: bool = False) -> Any:
        """Take the names of the wrapped model."""
        return self.model.load_state_dict(state_dict, strict, assign)

    def state_dict(self, *args: Any, **kwargs: Any) -> Any:
        """Give the names of the wrapped model."""
        return self.model.state_dict(*args, **kwargs)


def read_folder(family: str, folder: Path) -> FolderNetwork | None:
    """Return the network a folder's config.json describes, None without one; raise SourceError when it is of another family."""
    config = read_json(folder / "config.json")
    if config is None:
        return None
    if "architecture" in config:
        return _timm(family, config, folder)
    if config.get("model_type") == "resnet" and family == "resnet50":
        return _transformers_resnet(config, folder)
    found = config.get("architecture") or config.get("model_type")
    raise SourceError(f"{folder}/config.json describes {found!r}, not {family}. Check the model's family or source.")


def read_json(path: Path) -> dict[str, Any] | None:
    """Return a JSON file's mapping, None when there is no file; raise SourceError when it is damaged."""
    if not path.is_file():
        return None
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as e:
        raise SourceError(f"{path} is not JSON: {e}. Fetch it again.") from e
    if not isinstance(data, dict):
        raise SourceError(f"{path}: expected a mapping, found {type(data).__name__}")
    return data


def _timm(family: str, config: dict[str, Any], folder: Path) -> FolderNetwork:
    import timm

    name = config["architecture"]
    if name not in _TIMM_NAMES[family]:
        raise SourceError(f"{folder}/config.json describes {name!r}, not {family}. Check the model's family or source.")
    told = config.get("pretrained_cfg", config)
    return FolderNetwork(timm.create_model(name, pretrained=False), _preprocessing(told.get("mean"), told.get("std"), folder))


def _transformers_resnet(config: dict[str, Any], folder: Path) -> FolderNetwork:
    from transformers import ResNetConfig, ResNetForImageClassification

    differing = [key for key, value in _RESNET50.items() if config.get(key, value) != value]
    if differing:
        raise SourceError(f"{folder}/config.json describes another ResNet than ResNet-50: it differs in {', '.join(differing)}")
    shape = ResNetConfig.from_dict(config)
    if shape.num_labels != CLASSES:
        raise SourceError(f"{folder}/config.json describes {shape.num_labels} classes, expected {CLASSES}")
    told = read_json(folder / "preprocessor_config.json") or {}
    body = Logits(ResNetForImageClassification(shape))
    return FolderNetwork(body, _preprocessing(told.get("image_mean"), told.get("image_std"), folder))


def _preprocessing(mean: Any, std: Any, folder: Path) -> Preprocessing | None:
    if mean is None or std is None:
        return None
    try:
        (r, g, b), (sr, sg, sb) = map(float, mean), map(float, std)
    except (TypeError, ValueError) as e:
        raise SourceError(f"{folder}: mean and std must be three numbers each, found {mean!r} and {std!r}") from e
    return Preprocessing((r, g, b), (sr, sg, sb))
