"""Build what an arm serves: choose family, weights and engine by name, load what was prepared.

Importing this loads no framework: torch and ONNX Runtime are imported when an arm needs them.
"""

from collections.abc import Callable
from pathlib import Path

from bakeoff.experiment import Arm, ModelSpec
from bakeoff.hosting import OnnxRuntimeEngine, SimulatedEngine, TorchEngine
from models import combinations
from models.onnx_preparation import load_network, prepared
from models.servable import Servable
from models.simulated import EchoServable
from models.source import locate


def families() -> tuple[str, ...]:
    """Return every family's name, those that are not served yet last."""
    return combinations.known()


def check(spec: ModelSpec, arm: Arm, is_cpu: bool) -> None:
    """Raise ExperimentError unless family, source, engine, precision and device go together; nothing is loaded."""
    combinations.check(spec, arm, is_cpu)


def prepare(spec: ModelSpec, arm: Arm, cache: Path, progress: Callable[[str], None]) -> None:
    """Fetch, export and calibrate what the arm needs and `cache` lacks, telling each slow step; a second call does nothing.

    Raises SourceError when weights or calibration data are missing or damaged; what the cache held stays.
    """
    combinations.check_family(spec)
    if isinstance(arm.engine, OnnxRuntimeEngine):
        combinations.check(spec, arm, is_cpu=True)
        prepared(spec, arm, cache, progress)
    elif isinstance(arm.engine, TorchEngine):
        locate(spec.source, cache)


def build(spec: ModelSpec, arm: Arm, device: str, cache: Path) -> Servable:
    """Load an arm's model onto a device, `cpu` or `cuda:<index>`, preparing what `cache` lacks.

    Raises ExperimentError for a combination that cannot run, SourceError for bad weights, OutOfMemory and EngineError from the engine.
    """
    check(spec, arm, device == "cpu")
    match arm.engine:
        case SimulatedEngine():
            return EchoServable(arm.engine)
        case OnnxRuntimeEngine():
            return _onnx(spec, arm, arm.engine, cache)
        case TorchEngine():
            return _torch(spec, arm, arm.engine, device, cache)


def _onnx(spec: ModelSpec, arm: Arm, engine: OnnxRuntimeEngine, cache: Path) -> Servable:
    from models.onnx_engine import OnnxServable

    artefact = prepared(spec, arm, cache, lambda _: None)
    return OnnxServable(artefact.model, artefact.signature, {**artefact.facts, "family": spec.family}, engine.threads)


def _torch(spec: ModelSpec, arm: Arm, engine: TorchEngine, device: str, cache: Path) -> Servable:
    from models.torch_engine import TorchServable

    network = load_network(spec.family, locate(spec.source, cache))
    network.facts["family"] = spec.family
    return TorchServable(network, arm.precision, device, engine.threads)
