from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from bakeoff.errors import ExperimentError, SourceError
from models import labelled, pictures
from models.views import random_view, ten_views


def gradient(width: int, height: int) -> Image.Image:
    """Red counts columns and green rows, each from 0 to 255."""
    red = np.linspace(0, 255, width)[None, :].repeat(height, 0)
    green = np.linspace(0, 255, height)[:, None].repeat(width, 1)
    return Image.fromarray(np.stack([red, green, np.zeros_like(red)], 2).astype(np.uint8))


def test_views_are_four_corners_and_the_centre_each_with_its_mirror_image() -> None:
    cut = ten_views(gradient(256, 256))
    assert cut.shape == (10, 224, 224, 3)
    origins = [tuple(int(v) for v in view[0, 0, :2]) for view in cut[::2]]
    assert origins == [(0, 0), (32, 0), (0, 32), (32, 32), (16, 16)]
    np.testing.assert_array_equal(cut[1::2], cut[::2, :, ::-1])


def test_a_wide_picture_keeps_its_proportions() -> None:
    top_right = ten_views(gradient(1024, 512))[2]
    assert top_right[0, 0, 0] == pytest.approx(255 * (512 - 224) / 511, abs=2)


@pytest.mark.parametrize("size", [(300, 200), (200, 300), (224, 224), (31, 700)])
def test_a_random_view_has_the_networks_size_whatever_the_pictures(size: tuple[int, int]) -> None:
    assert random_view(gradient(*size), np.random.default_rng(0)).shape == (224, 224, 3)


def test_the_labelled_set_has_ten_views_of_each_of_twenty_pictures(views: labelled.LabelledSet) -> None:
    assert views.images.shape == (200, 224, 224, 3)
    assert views.images.dtype == np.uint8
    assert np.bincount(views.groups).tolist() == [10] * 20
    assert all(len(set(views.labels[views.groups == g])) == 1 for g in range(20))
    assert views.labels[0] == 243


def test_calibration_views_repeat_by_seed_and_are_not_the_evaluations(views: labelled.LabelledSet) -> None:
    first, again, other = (labelled.calibration_views(20, seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)
    evaluated = {view.tobytes() for view in views.images}
    assert not evaluated & {view.tobytes() for view in first}


def test_an_unknown_set_is_refused_with_the_known_names() -> None:
    with pytest.raises(ExperimentError, match="imagenet-views-200"):
        labelled.labelled("cifar")


def test_missing_pictures_are_reported_with_their_count(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="expected 20 labelled pictures .* found 0"):
        pictures.pictures(tmp_path)


def test_a_damaged_picture_is_a_source_error(tmp_path: Path) -> None:
    path = tmp_path / "imagenet_00_243.jpg"
    path.write_bytes(b"\xff\xd8 not a picture")
    with pytest.raises(SourceError, match="cannot decode"):
        pictures.Picture(path, 243).open()


def test_an_absent_package_is_reported_with_its_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pictures, "find_spec", lambda _: None)
    with pytest.raises(SourceError, match="pip install foolbox"):
        pictures.installed_folder()
