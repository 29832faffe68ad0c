"""Make the ONNX files that ONNX Runtime arms need, once for each set of weights and settings."""

import importlib.metadata
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from bakeoff.experiment import Arm, ModelSpec
from bakeoff.hosting import OnnxRuntimeEngine
from bakeoff.precision import Precision
from models import artefacts
from models.artefacts import Artefact
from models.servable import Signature
from models.source import Located, locate

if TYPE_CHECKING:
    from models.network import Network

RECIPE = 1
"""Version of how files are made here; raising it makes all anew."""
Progress = Callable[[str], None]


def prepared(spec: ModelSpec, arm: Arm, cache: Path, progress: Progress) -> Artefact:
    """Return the arm's ONNX file, making what the cache lacks; raise SourceError when weights or calibration data fail."""
    located = locate(spec.source, cache)
    if arm.precision is Precision.INT8:
        return _int8(spec.family, located, arm, cache, progress)
    return _fp32(spec.family, located, cache, progress)


def _fp32(family: str, located: Located, cache: Path, progress: Progress) -> Artefact:
    settings = _export_settings(family, located)

    def write(target: Path) -> tuple[Signature, dict[str, str]]:
        from models.onnx_export import export

        network = load_network(family, located)
        export(network, target)
        return network.signature, {**network.facts, "precision": "fp32"}

    return _found_or_made(cache, family, settings, write, progress, f"{family}: exporting to ONNX")


def _int8(family: str, located: Located, arm: Arm, cache: Path, progress: Progress) -> Artefact:
    engine = arm.engine
    assert isinstance(engine, OnnxRuntimeEngine)
    settings = {**_export_settings(family, located), **_calibration_settings(engine)}

    def write(target: Path) -> tuple[Signature, dict[str, str]]:
        from models.labelled import calibration_views
        from models.onnx_int8 import quantise

        fp32 = _fp32(family, located, cache, progress)
        quantise(fp32.model, target, calibration_views(engine.calibration_samples), engine.calibration_method)
        return fp32.signature, {**fp32.facts, "precision": "int8", **_calibration_facts(engine)}

    step = f"{family}: calibrating INT8 on {engine.calibration_samples} images"
    return _found_or_made(cache, family, settings, write, progress, step)


def _found_or_made(
    cache: Path, family: str, settings: dict[str, object], write: artefacts.Write, progress: Progress, step: str
) -> Artefact:
    found = artefacts.find(cache, family, settings)
    if found is not None:
        return found
    progress(step)
    return artefacts.make(cache, family, settings, write)


def load_network(family: str, located: Located) -> "Network":
    """Build a family's network in memory with the located weights; this loads torch."""
    if family == "bert-base":
        from models import text

        return text.load(located)
    from models import vision

    return vision.load(family, located)


def _export_settings(family: str, located: Located) -> dict[str, object]:
    versions = {name: importlib.metadata.version(name) for name in ("torch", "onnx")}
    return {"family": family, "weights": located.digest, "recipe": RECIPE, **versions}


def _calibration_settings(engine: OnnxRuntimeEngine) -> dict[str, object]:
    return {**_calibration_facts(engine), "onnxruntime": importlib.metadata.version("onnxruntime")}


def _calibration_facts(engine: OnnxRuntimeEngine) -> dict[str, str]:
    from models.labelled import CALIBRATION_SEED
    from models.pictures import installed_folder, pictures, pictures_digest

    return {
        "calibration_method": engine.calibration_method,
        "calibration_samples": str(engine.calibration_samples),
        "calibration_seed": str(CALIBRATION_SEED),
        "calibration_digest": pictures_digest(pictures(installed_folder())),
        "calibration_data": "random views of the 20 ImageNet pictures of foolbox",
    }
