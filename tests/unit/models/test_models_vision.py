import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from bakeoff.errors import SourceError
from models import vision
from models.labelled import LabelledSet
from models.network import Network
from models.preprocessing import IMAGENET, SIGNED_UNIT, Preprocessing
from models.source import Drawn, Stored


@pytest.fixture(scope="module")
def resnet() -> nn.Module:
    from torchvision.models import resnet50

    torch.manual_seed(1)
    network: nn.Module = resnet50(weights=None).eval()
    return network


def at(path: Path) -> Stored:
    return Stored(path, "digest")


def pixels(views: LabelledSet) -> np.ndarray:
    return views.images[:20:10].copy()


def normalised(images: np.ndarray, preprocessing: Preprocessing) -> torch.Tensor:
    """Normalise as torchvision's transform does, the independent way."""
    from torchvision.transforms.functional import normalize

    return normalize(torch.from_numpy(images).permute(0, 3, 1, 2) / 255, list(preprocessing.mean), list(preprocessing.std))


def answers(network: Network, images: np.ndarray) -> np.ndarray:
    with torch.inference_mode():
        answer: np.ndarray = network.module(image=torch.from_numpy(images)).numpy()
    return answer


def expected(model: nn.Module, images: np.ndarray, preprocessing: Preprocessing) -> np.ndarray:
    with torch.inference_mode():
        answer: np.ndarray = torch.softmax(model(normalised(images, preprocessing)), 1).numpy()
    return answer


def test_a_torchvision_state_dict_answers_as_torchvision_does(resnet: nn.Module, views: LabelledSet, tmp_path: Path) -> None:
    save_file(resnet.state_dict(), tmp_path / "r.safetensors")
    network = vision.load("resnet50", at(tmp_path / "r.safetensors"))
    images = pixels(views)
    np.testing.assert_allclose(answers(network, images), expected(resnet, images, IMAGENET), atol=1e-5)
    assert "(123.675, 116.28, 103.53)" in network.facts["preprocessing"]


def test_a_timm_folder_brings_its_own_normalisation(resnet: nn.Module, views: LabelledSet, tmp_path: Path) -> None:
    own = {"mean": [0.5, 0.4, 0.3], "std": [0.3, 0.2, 0.1]}
    save_file(resnet.state_dict(), tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text(json.dumps({"architecture": "resnet50", "pretrained_cfg": own}))
    network = vision.load("resnet50", at(tmp_path))
    images = pixels(views)
    told = Preprocessing((0.5, 0.4, 0.3), (0.3, 0.2, 0.1))
    np.testing.assert_allclose(answers(network, images), expected(resnet, images, told), atol=1e-5)


def test_a_transformers_folder_answers_as_transformers_does(views: LabelledSet, tmp_path: Path) -> None:
    from transformers import ResNetConfig, ResNetForImageClassification

    torch.manual_seed(2)
    model = ResNetForImageClassification(ResNetConfig(num_labels=1000)).eval()
    model.save_pretrained(tmp_path)
    told = {"image_mean": [0.5, 0.5, 0.5], "image_std": [0.25, 0.25, 0.25]}
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(told))
    network = vision.load("resnet50", at(tmp_path))
    images = pixels(views)
    with torch.inference_mode():
        logits = model(normalised(images, Preprocessing((0.5,) * 3, (0.25,) * 3))).logits
    np.testing.assert_allclose(answers(network, images), torch.softmax(logits, 1).numpy(), atol=1e-5)


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ({"architecture": "resnet18"}, "'resnet18', not resnet50"),
        ({"model_type": "vit"}, "'vit', not resnet50"),
        ({"model_type": "resnet", "depths": [2, 2, 2, 2]}, "another ResNet than ResNet-50: it differs in depths"),
        ({"model_type": "resnet"}, "2 classes, expected 1000"),
        ({"architecture": "resnet50", "mean": [1, 2], "std": [1, 2]}, "three numbers"),
        ([1], "expected a mapping"),
    ],
)
def test_a_folder_that_describes_another_network_is_refused(tmp_path: Path, config: object, reason: str) -> None:
    save_file({"w": torch.zeros(1)}, tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(SourceError, match=reason):
        vision.load("resnet50", at(tmp_path))


def test_a_damaged_configuration_is_a_source_error(tmp_path: Path) -> None:
    save_file({"w": torch.zeros(1)}, tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(SourceError, match="is not JSON"):
        vision.load("resnet50", at(tmp_path))


def test_weights_of_one_family_do_not_fit_the_other(resnet: nn.Module, tmp_path: Path) -> None:
    save_file(resnet.state_dict(), tmp_path / "r.safetensors")
    with pytest.raises(SourceError, match="another architecture"):
        vision.load("efficientnet-lite0", at(tmp_path / "r.safetensors"))


def test_random_weights_repeat_by_seed_and_leave_the_global_generator_alone() -> None:
    torch.manual_seed(7)
    before = torch.random.get_rng_state()
    first, again, other = (vision.load("efficientnet-lite0", Drawn(seed)).body.state_dict() for seed in (1, 1, 2))
    assert torch.equal(torch.random.get_rng_state(), before)
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not all(torch.equal(first[name], other[name]) for name in first)


@pytest.mark.parametrize(("family", "parameters"), [("resnet50", 25.6e6), ("efficientnet-lite0", 4.65e6)])
def test_a_random_network_is_the_real_architecture(family: str, parameters: float) -> None:
    network = vision.load(family, Drawn(0))
    assert sum(p.numel() for p in network.body.parameters()) == pytest.approx(parameters, rel=0.005)
    assert network.facts["weights"] == "random"


@pytest.mark.parametrize("preprocessing", [IMAGENET, SIGNED_UNIT])
def test_scale_and_offset_normalise_as_mean_and_deviation_do(preprocessing: Preprocessing) -> None:
    pixel = np.array([0.0, 100.0, 255.0])
    by_parts = pixel * np.array(preprocessing.scale) + np.array(preprocessing.offset)
    image = pixel.astype(np.uint8).reshape(1, 1, 1, 3)
    np.testing.assert_allclose(by_parts, normalised(image, preprocessing).numpy().ravel(), atol=1e-6)
