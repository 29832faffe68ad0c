"""Describe how an arm is hosted: where its weights come from, which engine runs it, how its batches form."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from bakeoff.closed import Closed


class HubSource(Closed):
    """Take weights from a model hub at a pinned revision."""

    kind: Literal["hub"] = "hub"
    id: str = Field(min_length=1)
    """Repository id on the hub, such as `google-bert/bert-base-uncased`."""
    revision: str = Field(pattern="^[0-9a-f]{40}$")
    """Commit the weights are pinned to, 40 hexadecimal digits."""
    token_env: str | None = None
    """Environment variable that holds the access token of a gated model."""


class PathSource(Closed):
    """Take weights from a local file or folder."""

    kind: Literal["path"] = "path"
    path: Path
    """File or folder with the weights."""
    sha256: str | None = Field(default=None, pattern="^[0-9a-f]{64}$")
    """Digest that the weight file must have."""
    allow_pickle: bool = False
    """Accept formats other than safetensors, which run code when loaded."""


class PackageSource(Closed):
    """Take weights that an installed Python package ships."""

    kind: Literal["package"] = "package"
    package: str = Field(min_length=1)
    """Distribution that ships the weights."""


class RandomSource(Closed):
    """Fill the real architecture with seeded random weights: right speed, meaningless answers."""

    kind: Literal["random"] = "random"
    seed: int = 0
    """Seed of the weights."""


class NoSource(Closed):
    """Have no weights, as an echo has none."""

    kind: Literal["none"] = "none"


Source = Annotated[HubSource | PathSource | PackageSource | RandomSource | NoSource, Field(discriminator="kind")]


class TorchEngine(Closed):
    """Run the network in PyTorch, eagerly."""

    kind: Literal["torch"] = "torch"
    threads: int = Field(default=1, ge=1, le=256)
    """Threads of one operation on a CPU pool."""


class OnnxRuntimeEngine(Closed):
    """Run an ONNX export in ONNX Runtime; INT8 is calibrated and written as Q/DQ nodes."""

    kind: Literal["onnxruntime"] = "onnxruntime"
    threads: int = Field(default=1, ge=1, le=256)
    """Threads of one operation."""
    calibration_samples: int = Field(default=64, ge=1, le=100_000)
    """Inputs that INT8 activation ranges are read from."""
    calibration_method: Literal["minmax", "entropy", "percentile"] = "minmax"
    """How an activation's range is chosen from what was seen."""


class SimulatedEngine(Closed):
    """Echo the input after a chosen time: deterministic, and marked SIMULATED wherever its figures appear."""

    kind: Literal["simulated"] = "simulated"
    service_time_s: float = Field(default=0, ge=0, le=60)
    """Seconds a batch takes whatever its size."""
    per_item_s: float = Field(default=0, ge=0, le=60)
    """Seconds added for each item of the batch."""


Engine = Annotated[TorchEngine | OnnxRuntimeEngine | SimulatedEngine, Field(discriminator="kind")]


class Batching(Closed):
    """Bound how requests are joined; a batch is formed when an execution slot is free, never before."""

    max_batch_size: int = Field(default=8, ge=1, le=1024)
    """Items the engine takes at once."""
    max_queue_delay_s: float = Field(default=0, ge=0, le=10)
    """Longest time a request waits for others while a slot is free; 0 never waits."""
    queue_limit: int = Field(default=512, ge=1, le=100_000)
    """Requests that may wait; one more is refused with 503 and Retry-After."""
    slots: int = Field(default=1, ge=1, le=16)
    """Batches in execution at once in one replica."""
