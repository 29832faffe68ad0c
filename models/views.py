"""Cut square views out of pictures: ten fixed ones for evaluation, random ones for calibration."""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from PIL.Image import Image

SIDE = 224
SHORTER_SIDE = 256
Pixels = NDArray[np.uint8]


def ten_views(picture: "Image") -> Pixels:
    """Return four corners and the centre, each also mirrored, of a picture resized to 256 on its shorter side: (10, 224, 224, 3) RGB."""
    pixels = _resized(picture, SHORTER_SIDE)
    height, width = pixels.shape[:2]
    right, bottom = width - SIDE, height - SIDE
    corners = [(0, 0), (0, right), (bottom, 0), (bottom, right), (bottom // 2, right // 2)]
    crops = [_crop(pixels, top, left) for top, left in corners]
    return np.stack([view for crop in crops for view in (crop, crop[:, ::-1])])


def random_view(picture: "Image", rng: np.random.Generator) -> Pixels:
    """Return one view (224, 224, 3) at a random scale, place and mirroring; scales keep 67 to 97 % of the shorter side."""
    pixels = _resized(picture, int(rng.integers(232, 336)))
    top = int(rng.integers(0, pixels.shape[0] - SIDE + 1))
    left = int(rng.integers(0, pixels.shape[1] - SIDE + 1))
    crop = _crop(pixels, top, left)
    return crop[:, ::-1] if rng.random() < 0.5 else crop


def _resized(picture: "Image", shorter: int) -> Pixels:
    from PIL.Image import Resampling

    scale = shorter / min(picture.size)
    width, height = (max(shorter, round(side * scale)) for side in picture.size)
    return np.asarray(picture.convert("RGB").resize((width, height), Resampling.BILINEAR))


def _crop(pixels: Pixels, top: int, left: int) -> Pixels:
    return pixels[top : top + SIDE, left : left + SIDE]
