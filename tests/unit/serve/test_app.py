"""What Ray is asked to reserve for an arm, and which machine can stand for which pool."""

import socket

import pytest

from bakeoff.errors import ExperimentError, ServingError
from bakeoff.experiment import Arm, Pool, parse
from bakeoff.gpus import catalogue
from monitoring.pools import CATALOGUE_NAMES
from serve import rayhost
from serve.app import actor_options, ray_accelerator


def arm(**changes):
    return Arm(**{"model": "m", "precision": "fp16", "pool": "l4", **changes})


def test_a_gpu_arm_asks_for_its_pool_its_card_and_one_gpu():
    options = actor_options(arm(), Pool(accelerator="L4"), {"A": "b"})
    assert options["num_gpus"] == 1
    assert options["accelerator_type"] == "L4"
    assert options["resources"] == {"pool_l4": 0.001}
    assert options["runtime_env"] == {"env_vars": {"A": "b"}}


def test_a_share_of_a_gpu_is_passed_on():
    assert actor_options(arm(num_gpus=0.25), Pool(accelerator="L4"), {})["num_gpus"] == 0.25


def test_a_cpu_arm_asks_for_no_gpu():
    options = actor_options(arm(pool="cpu", precision="fp32", num_cpus=2), Pool(accelerator="cpu"), {})
    assert "num_gpus" not in options
    assert "accelerator_type" not in options
    assert options["num_cpus"] == 2


@pytest.mark.parametrize(("product", "name"), CATALOGUE_NAMES.items())
def test_a_card_is_named_as_ray_names_it_from_the_drivers_product_name(product, name):
    from ray._private.accelerators.nvidia_gpu import NvidiaGPUAcceleratorManager

    assert ray_accelerator(name) == NvidiaGPUAcceleratorManager._gpu_name_to_accelerator_type(product)


def test_every_card_of_the_catalogue_is_told_apart_by_its_product_name():
    assert set(CATALOGUE_NAMES.values()) == set(catalogue())


def test_a_pool_this_machine_cannot_stand_for_is_refused_with_what_there_is(monkeypatch):
    monkeypatch.setattr(rayhost, "_cards", lambda: ["L4"])
    document = {
        "name": "x",
        "pools": {"t4": {"accelerator": "T4"}, "l4": {"accelerator": "L4"}},
        "models": {"m": {"family": "resnet50"}},
    }
    good = parse({**document, "arms": [{"model": "m", "precision": "fp16", "pool": "l4"}]}, "x")
    assert rayhost.local_pools(good) == ["pool_l4"]
    bad = parse({**document, "arms": [{"model": "m", "precision": "fp16", "pool": "t4"}]}, "x")
    with pytest.raises(ExperimentError, match="pool 't4' needs a T4; this machine has L4"):
        rayhost.local_pools(bad)


def test_free_ports_are_all_different():
    ports = rayhost.free_ports(20)
    assert len(set(ports)) == 20


def test_the_operators_own_settings_of_ray_win(monkeypatch):
    monkeypatch.setenv("RAY_SERVE_HAPROXY_NBTHREAD", "7")
    env = rayhost.environment(rayhost.RayPorts(1, 2, 3, 4))
    assert env["RAY_SERVE_HAPROXY_NBTHREAD"] == "7"
    assert env["RAY_SERVE_ENABLE_HA_PROXY"] == "1"
    assert rayhost.environment(rayhost.RayPorts(1, 2, 3, 4), ha_proxy=False)["RAY_SERVE_ENABLE_HA_PROXY"] == "0"


def test_a_port_in_use_is_refused_before_anything_starts():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(ServingError, match=f"cannot listen on 127.0.0.1:{port}.*another port"):
            rayhost.require_free(port, "127.0.0.1")
    rayhost.require_free(0, "127.0.0.1")
