"""Build the Ray Serve applications of an experiment: one for each arm, and the control application."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bakeoff.experiment import Arm, Experiment, Pool
from bakeoff.gpus import lookup
from serve.control import ControlReplica, ControlSettings
from serve.front import CONTROL
from serve.replica import ArmReplica, ArmSettings

POOL_SLIVER = 0.001
"""Share of a node's `pool_<name>` resource that one replica asks for: it steers placement and never runs out."""
SHUTDOWN_S = 10.0
_RAY_ACCELERATORS = {"A100-PCIe-40GB": "A100", "A100-SXM4-40GB": "A100", "A100-PCIe-80GB": "A100", "A100-SXM4-80GB": "A100"}


def applications(
    experiment: Experiment, cache: Path, front: Path | None, max_body_bytes: int, env: Mapping[str, str]
) -> list[Any]:
    """Return one `ray.serve.RunTarget` an arm, and the control application's; replicas get `env` as environment."""
    from ray import serve as ray_serve

    targets = [
        ray_serve.RunTarget(
            target=arm_application(settings(experiment, arm, cache, max_body_bytes), env),
            name=arm.id,
            route_prefix=f"/arms/{arm.id}",
        )
        for arm in experiment.arms
    ]
    control = control_application(ControlSettings(experiment=experiment, front=front))
    return [*targets, ray_serve.RunTarget(target=control, name=CONTROL, route_prefix=f"/{CONTROL}")]


def settings(experiment: Experiment, arm: Arm, cache: Path, max_body_bytes: int) -> ArmSettings:
    """Return what one arm's replicas need."""
    return ArmSettings(
        arm=arm,
        spec=experiment.models[arm.model],
        pool=experiment.pools[arm.pool],
        slo=experiment.slo_of(arm.model),
        cache=cache,
        max_body_bytes=max_body_bytes,
    )


def arm_application(arm_settings: ArmSettings, env: Mapping[str, str]) -> Any:
    """Return the Ray Serve application of one arm."""
    from ray import serve as ray_serve

    arm = arm_settings.arm
    deployment = ray_serve.deployment(
        name="arm",
        num_replicas=arm.replicas,
        max_ongoing_requests=arm.batching.queue_limit + arm.batching.slots * arm.batching.max_batch_size,
        ray_actor_options=actor_options(arm, arm_settings.pool, env),
        health_check_period_s=2,
        health_check_timeout_s=10,
        graceful_shutdown_timeout_s=SHUTDOWN_S,
        graceful_shutdown_wait_loop_s=0.2,
    )(ray_serve.ingress()(ArmReplica))
    return deployment.bind(arm_settings)


def control_application(control_settings: ControlSettings) -> Any:
    """Return the control application."""
    from ray import serve as ray_serve

    deployment = ray_serve.deployment(
        name=CONTROL,
        num_replicas=1,
        ray_actor_options={"num_cpus": 0},
        graceful_shutdown_timeout_s=SHUTDOWN_S,
        graceful_shutdown_wait_loop_s=0.2,
    )(ray_serve.ingress()(ControlReplica))
    return deployment.bind(control_settings)


def actor_options(arm: Arm, pool: Pool, env: Mapping[str, str]) -> dict[str, Any]:
    """Return what Ray reserves for one replica of an arm."""
    options: dict[str, Any] = {
        "num_cpus": arm.num_cpus,
        "resources": {f"pool_{arm.pool}": POOL_SLIVER},
        "runtime_env": {"env_vars": dict(env)},
    }
    if not pool.is_cpu:
        options["num_gpus"] = arm.num_gpus or 1
        options["accelerator_type"] = ray_accelerator(pool.accelerator)
    return options


def ray_accelerator(accelerator: str) -> str:
    """Return the name Ray gives a card of the catalogue, such as `A100` for each of its kinds."""
    return _RAY_ACCELERATORS.get(accelerator, lookup(accelerator).name.split("-")[0])
