"""Read and check the one configuration file: pools, models, arms, splits, SLOs, prices and the load they get."""

from collections import Counter
from pathlib import Path
from typing import Annotated, Literal, Self

import yaml
from pydantic import Field, StringConstraints, ValidationError, model_validator

from bakeoff.closed import Closed
from bakeoff.errors import ExperimentError, UnsupportedPrecision
from bakeoff.gpus import lookup
from bakeoff.hosting import Batching, Engine, NoSource, Source, TorchEngine
from bakeoff.precision import Precision, require_cpu_support, require_support
from bakeoff.pricing import Price

Name = Annotated[str, StringConstraints(pattern="^[a-z0-9]([a-z0-9.-]{0,61}[a-z0-9])?$")]
CPU = "cpu"


class Pool(Closed):
    """Describe nodes with one kind of accelerator."""

    accelerator: str
    """`cpu`, or a name of the GPU catalogue such as `T4`, `L4` or `A100-SXM4-40GB`."""
    gpus_per_node: int = Field(default=1, ge=1, le=16)
    """Cards in one node; prices are of a whole node."""
    price: Price | None = None
    """What an hour of one node costs; without it no cost is computed."""

    @property
    def is_cpu(self) -> bool:
        """Say whether the pool has no GPU."""
        return self.accelerator == CPU


class AccuracyGate(Closed):
    """Say which accuracy an arm must keep, relative to FP32 on the same labelled inputs."""

    dataset: str
    """Labelled set, by the name the model's family knows it under."""
    ratio: float = Field(default=0.99, gt=0, le=1)
    """Least share of the FP32 accuracy."""
    bound: Literal["lower95", "point"] = "lower95"
    """Hold the lower 95 % confidence bound against the ratio, or only the point estimate."""


class Workload(Closed):
    """Fix the load that a comparison offers to each arm of a model."""

    rate_per_s: float = Field(gt=0, le=1_000_000)
    """Mean rate of the Poisson arrivals, requests a second."""
    run_s: float = Field(default=60, gt=0, le=86_400)
    """Length of one run."""
    warmup_s: float = Field(default=2, ge=0, le=3_600)
    """Load before the first run that is recorded but not counted."""
    blocks: int = Field(default=6, ge=2, le=100)
    """Blocks, each of four runs in the order A B B A."""
    seed: int = 1
    """Seed of arrivals and inputs; block k uses seed + k for both arms."""
    timeout_s: float = Field(default=10, gt=0, le=600)
    """Time after which the client gives up on a request."""
    protocol: Literal["http", "grpc"] = "http"
    """Wire protocol of the load."""


class ModelSpec(Closed):
    """Describe a network, where its weights come from, and what is asked of it."""

    family: str
    """Architecture and task, a name of `bakeoff models list`."""
    source: Source = NoSource()
    """Where the weights come from."""
    accuracy: AccuracyGate | None = None
    """Gate that each arm has to meet; without it only agreement is reported."""
    workload: Workload | None = None
    """Load offered by `bakeoff compare`."""


class Arm(Closed):
    """Put one model at one precision on one pool."""

    model: Name
    """Key of `models`."""
    precision: Precision
    """Arithmetic the engine computes in."""
    pool: Name
    """Key of `pools`."""
    name: Name | None = None
    """Own name; by default `<model>-<precision>-<pool>`."""
    engine: Engine = TorchEngine()
    """What runs the network."""
    batching: Batching = Batching()
    """How requests are joined."""
    replicas: int = Field(default=1, ge=1, le=1024)
    """Replicas, each with its own engine."""
    num_cpus: float = Field(default=1, gt=0, le=256)
    """CPU cores that Ray reserves for one replica."""
    num_gpus: float | None = Field(default=None, gt=0, le=16)
    """GPUs of one replica; by default 1 on a GPU pool and none on a CPU pool."""

    @property
    def id(self) -> str:
        """Return the arm's name, which is also a model name on the wire."""
        return self.name or f"{self.model}-{self.precision}-{self.pool}"

    @property
    def simulated(self) -> bool:
        """Say whether the figures of this arm come from a simulated engine."""
        return self.engine.kind == "simulated"


class Split(Closed):
    """Share one model's traffic among its arms by weight."""

    model: Name
    """Key of `models`."""
    weights: dict[Name, Annotated[float, Field(ge=0)]]
    """Weight of each arm; only their ratios count."""


class Slo(Closed):
    """State what a good answer of a model is."""

    model: Name
    """Key of `models`."""
    latency_s: float | None = Field(default=None, gt=0)
    """Target: longest time from a request's due time to the last byte of its answer."""
    ttft_s: float | None = Field(default=None, gt=0)
    """Target: longest time to the first output token."""
    itl_s: float | None = Field(default=None, gt=0)
    """Target: longest mean time between output tokens."""
    percentile: float = Field(default=0.99, gt=0, lt=1)
    """Share of the requests that must meet the targets."""

    @model_validator(mode="after")
    def _has_a_target(self) -> Self:
        if self.latency_s is None and self.ttft_s is None and self.itl_s is None:
            raise ValueError(f"SLO of {self.model!r} has no target: give latency_s, ttft_s or itl_s")
        return self


class Experiment(Closed):
    """Hold one whole experiment; a value of this type is consistent by construction."""

    name: Name
    """Name of the experiment, shown in reports and dashboards."""
    demonstration: bool = False
    """Mark every verdict as a demonstration, never a purchase verdict."""
    pools: dict[Name, Pool] = Field(min_length=1)
    """Pools by name."""
    models: dict[Name, ModelSpec] = Field(min_length=1)
    """Models by name."""
    arms: tuple[Arm, ...] = Field(min_length=1)
    """Arms; each is one Ray Serve application."""
    splits: tuple[Split, ...] = ()
    """How models share traffic among their arms; by default equally."""
    slos: tuple[Slo, ...] = ()
    """Service level objectives, at most one a model."""

    @model_validator(mode="after")
    def _is_consistent(self) -> Self:
        problems = [*_arm_problems(self), *_split_problems(self), *_slo_problems(self)]
        if problems:
            raise ValueError("; ".join(problems))
        return self

    def arm(self, arm_id: str) -> Arm:
        """Return one arm by id, or raise ExperimentError listing the ids there are."""
        for arm in self.arms:
            if arm.id == arm_id:
                return arm
        raise ExperimentError(f"no arm {arm_id!r} in experiment {self.name!r}. Arms: {', '.join(a.id for a in self.arms)}.")

    def arms_of(self, model: str) -> tuple[Arm, ...]:
        """Return the arms that serve a model, in file order."""
        return tuple(arm for arm in self.arms if arm.model == model)

    def weights_of(self, model: str) -> dict[str, float]:
        """Return each arm's share of a model's traffic; shares sum to 1."""
        given = next((s.weights for s in self.splits if s.model == model), None)
        weights = {arm.id: 1.0 if given is None else given.get(arm.id, 0.0) for arm in self.arms_of(model)}
        total = sum(weights.values())
        return {arm: weight / total for arm, weight in weights.items()}

    def slo_of(self, model: str) -> Slo | None:
        """Return the model's SLO, or None."""
        return next((s for s in self.slos if s.model == model), None)


def load(path: Path) -> Experiment:
    """Read an experiment from a YAML file; raise ExperimentError naming the file, the place and the fault."""
    try:
        data = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as e:
        raise ExperimentError(f"cannot read experiment {path}: {e}") from e
    except yaml.YAMLError as e:
        raise ExperimentError(f"{path} is not YAML: {e}") from e
    return parse(data, str(path))


def parse(data: object, origin: str) -> Experiment:
    """Check parsed data as an experiment; `origin` names it in errors."""
    if not isinstance(data, dict):
        raise ExperimentError(f"{origin}: expected a mapping with pools, models and arms, found {type(data).__name__}")
    try:
        return Experiment.model_validate(data)
    except ValidationError as e:
        raise ExperimentError(f"{origin}: " + "; ".join(_sentence(error) for error in e.errors())) from e


def _sentence(error: object) -> str:
    assert isinstance(error, dict)
    place = ".".join(str(part) for part in error["loc"])
    message = str(error["msg"]).removeprefix("Value error, ")
    return f"{place}: {message}" if place else message


def _arm_problems(experiment: Experiment) -> list[str]:
    problems = []
    names = Counter(arm.id for arm in experiment.arms)
    problems += [f"duplicate arm {name!r}: give one of them another name" for name, n in names.items() if n > 1]
    for arm in experiment.arms:
        if arm.model not in experiment.models:
            problems.append(f"arm {arm.id!r}: unknown model {arm.model!r}; models: {', '.join(experiment.models)}")
        if arm.id in experiment.models:
            problems.append(f"arm {arm.id!r} has the name of a model: a request could mean either")
        pool = experiment.pools.get(arm.pool)
        if pool is None:
            problems.append(f"arm {arm.id!r}: unknown pool {arm.pool!r}; pools: {', '.join(experiment.pools)}")
            continue
        problems += _precision_problems(arm, pool)
    problems += [f"model {m!r} has no arm" for m in experiment.models if not experiment.arms_of(m)]
    return problems


def _precision_problems(arm: Arm, pool: Pool) -> list[str]:
    try:
        if pool.is_cpu:
            if arm.num_gpus is not None:
                return [f"arm {arm.id!r}: num_gpus on CPU pool {arm.pool!r}; remove it"]
            require_cpu_support(arm.precision)
        else:
            require_support(arm.precision, pool.accelerator, lookup(pool.accelerator).capability)
    except (UnsupportedPrecision, ExperimentError) as e:
        return [f"arm {arm.id!r}: {e}"]
    return []


def _split_problems(experiment: Experiment) -> list[str]:
    problems = _repeated("split", [s.model for s in experiment.splits])
    for split in experiment.splits:
        ids = {arm.id for arm in experiment.arms_of(split.model)}
        if not ids:
            problems.append(f"split of unknown model {split.model!r}; models: {', '.join(experiment.models)}")
            continue
        problems += [
            f"split of {split.model!r}: {arm!r} is not one of its arms ({', '.join(sorted(ids))})"
            for arm in split.weights
            if arm not in ids
        ]
        if sum(split.weights.values()) <= 0:
            problems.append(f"split of {split.model!r}: weights sum to 0; give at least one arm a weight above 0")
    return problems


def _slo_problems(experiment: Experiment) -> list[str]:
    problems = _repeated("SLO", [s.model for s in experiment.slos])
    problems += [
        f"SLO of unknown model {s.model!r}; models: {', '.join(experiment.models)}"
        for s in experiment.slos
        if s.model not in experiment.models
    ]
    return problems


def _repeated(what: str, names: list[str]) -> list[str]:
    return [f"more than one {what} of {name!r}" for name, n in Counter(names).items() if n > 1]
