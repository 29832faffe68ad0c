"""Find the twenty labelled ImageNet pictures that the package foolbox ships (MIT licence), without importing it."""

import re
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from bakeoff.errors import SourceError
from models import digest

if TYPE_CHECKING:
    from PIL.Image import Image

PACKAGE = "foolbox"
COUNT = 20
_NAME = re.compile(r"imagenet_\d+_(\d+)\.jpg")


@dataclass(frozen=True)
class Picture:
    """Point at one picture; `label` is its ImageNet class, 0 to 999."""

    path: Path
    label: int

    def open(self) -> "Image":
        """Decode the picture; raise SourceError when it is damaged."""
        from PIL import Image

        try:
            with Image.open(self.path) as image:
                return image.convert("RGB")
        except OSError as e:
            raise SourceError(f"cannot decode {self.path}: {e}. Reinstall {PACKAGE}.") from e


def installed_folder() -> Path:
    """Return the data folder of the installed package; raise SourceError when it is not installed."""
    found = find_spec(PACKAGE)
    if found is None or not found.submodule_search_locations:
        raise SourceError(f"the labelled pictures come with the package {PACKAGE}, which is not installed: pip install {PACKAGE}")
    return Path(found.submodule_search_locations[0]) / "data"


def pictures(folder: Path) -> tuple[Picture, ...]:
    """Return the twenty pictures in order, labels read from their file names; raise SourceError when some are missing."""
    found = [(path, _NAME.fullmatch(path.name)) for path in sorted(folder.glob("imagenet_*.jpg"))]
    labelled = tuple(Picture(path, int(match[1])) for path, match in found if match)
    if len(labelled) != COUNT:
        raise SourceError(f"expected {COUNT} labelled pictures in {folder}, found {len(labelled)}. Reinstall {PACKAGE}.")
    return labelled


def pictures_digest(found: tuple[Picture, ...]) -> str:
    """Return one digest of all the picture files."""
    return digest.of_files([picture.path for picture in found])
