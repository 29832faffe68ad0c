"""Build image classifiers from their real architectures: EfficientNet-Lite0 and ResNet-50.

Imported only where torch runs.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from models.drawing import drawn
from models.imagefolder import CLASSES, FolderNetwork, read_folder
from models.network import Network
from models.preprocessing import IMAGENET, SIGNED_UNIT, Preprocessing
from models.servable import Signature, TensorSpec
from models.source import Drawn, Located
from models.views import SIDE
from models.weights import adopt, read

SIGNATURE = Signature(
    inputs=(TensorSpec("image", "UINT8", (SIDE, SIDE, 3)),),
    outputs=(TensorSpec("probabilities", "FP32", (CLASSES,)),),
)


class Classifier(nn.Module):
    """Turn RGB bytes (n, 224, 224, 3) into probabilities (n, 1000): normalise, classify, softmax.

    Normalisation and softmax stay in FP32 whatever the precision of the body.
    """

    scale: Tensor
    offset: Tensor

    def __init__(self, body: nn.Module, preprocessing: Preprocessing) -> None:
        super().__init__()
        self.body = body
        self.register_buffer("scale", torch.tensor(preprocessing.scale).view(1, 3, 1, 1))
        self.register_buffer("offset", torch.tensor(preprocessing.offset).view(1, 3, 1, 1))

    def forward(self, image: Tensor) -> Tensor:
        """Return the probability of each class."""
        pixels = image.permute(0, 3, 1, 2).to(torch.float32) * self.scale + self.offset
        logits = self.body(pixels.to(next(self.body.parameters()).dtype))
        return torch.softmax(logits.to(torch.float32), 1)


class SpatialMean(nn.Module):
    """Average over height and width; global pooling that exports as one node."""

    def forward(self, features: Tensor) -> Tensor:
        """Return (n, channels, 1, 1)."""
        return features.mean((2, 3), keepdim=True)


def load(family: str, located: Located) -> Network:
    """Build a family's network with the located weights; raise SourceError when they do not fit."""
    body, preprocessing = _body(family, located)
    _export_global_pooling(body)
    module = Classifier(body.eval(), preprocessing).eval()
    facts = {**located.facts, "preprocessing": str(preprocessing)}
    return Network(module, body, SIGNATURE, facts, channels_last=True)


def _body(family: str, located: Located) -> tuple[nn.Module, Preprocessing]:
    architecture, preprocessing = _ARCHITECTURES[family]
    if isinstance(located, Drawn):
        return drawn(architecture, located.seed), preprocessing
    state = read(located)
    found = (read_folder(family, located.path) if located.path.is_dir() else None) or FolderNetwork(architecture(), preprocessing)
    adopt(found.body, state, located.path, by_order=family == "efficientnet-lite0")
    return found.body, found.preprocessing or preprocessing


def _efficientnet_lite0() -> nn.Module:
    """Build the network with TensorFlow's padding and batch-norm epsilon, as the published weights were trained."""
    import timm

    network: nn.Module = timm.create_model("tf_efficientnet_lite0", pretrained=False)
    return network


def _resnet50() -> nn.Module:
    from torchvision.models import resnet50

    network: nn.Module = resnet50(weights=None)
    return network


def _export_global_pooling(body: nn.Module) -> None:
    for parent in list(body.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, nn.AdaptiveAvgPool2d) and child.output_size in {1, (1, 1)}:
                setattr(parent, name, SpatialMean())


_ARCHITECTURES: dict[str, tuple[Callable[[], nn.Module], Preprocessing]] = {
    "efficientnet-lite0": (_efficientnet_lite0, SIGNED_UNIT),
    "resnet50": (_resnet50, IMAGENET),
}
