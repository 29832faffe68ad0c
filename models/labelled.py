"""Give the labelled inputs an accuracy gate asks by name, and the unlabelled ones that INT8 ranges are read from."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bakeoff.errors import ExperimentError
from models.pictures import installed_folder, pictures
from models.views import SIDE, Pixels, random_view, ten_views

IMAGENET_VIEWS = "imagenet-views-200"
CALIBRATION_SEED = 20


@dataclass(frozen=True)
class LabelledSet:
    """Hold labelled images: `images` (n, 224, 224, 3) RGB bytes, `labels` (n,) classes, `groups` (n,) picture each view was cut from."""

    name: str
    source: str
    note: str
    images: Pixels
    labels: NDArray[np.int64]
    groups: NDArray[np.int64]


def labelled(name: str) -> LabelledSet:
    """Return a labelled set by name, or raise ExperimentError listing the names there are."""
    if name != IMAGENET_VIEWS:
        raise ExperimentError(f"unknown labelled set {name!r}. Known: {', '.join(names())}.")
    return _imagenet_views()


def names() -> tuple[str, ...]:
    """Return the names of all labelled sets."""
    return (IMAGENET_VIEWS,)


def calibration_views(n: int, seed: int = CALIBRATION_SEED) -> Pixels:
    """Return n seeded random views of the same twenty pictures, taken in turn: (n, 224, 224, 3)."""
    rng = np.random.default_rng(seed)
    opened = [picture.open() for picture in pictures(installed_folder())]
    return np.stack([random_view(opened[i % len(opened)], rng) for i in range(n)])


def calibration_noise(n: int, seed: int = CALIBRATION_SEED) -> Pixels:
    """Return n images of uniform noise, the calibration set that a gate must reject."""
    return np.random.default_rng(seed).integers(0, 256, (n, SIDE, SIDE, 3), dtype=np.uint8)


def _imagenet_views() -> LabelledSet:
    found = pictures(installed_folder())
    images = [ten_views(picture.open()) for picture in found]
    counts = [len(views) for views in images]
    return LabelledSet(
        name=IMAGENET_VIEWS,
        source="20 ImageNet pictures of the package foolbox (MIT licence), ten views each",
        note=(
            "few and dependent: ten views of one picture stand or fall together, so bounds should resample pictures; "
            "INT8 ranges are read from other views of the same pictures"
        ),
        images=np.concatenate(images),
        labels=np.repeat(np.array([picture.label for picture in found], dtype=np.int64), counts),
        groups=np.repeat(np.arange(len(found), dtype=np.int64), counts),
    )
