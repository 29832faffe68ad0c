"""Read scripted cards through the real binding, in processes whose NVML library is the shim."""

import ctypes.util
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from monitoring.nvmllibrary import CONSEQUENCES, Consequence, NvmlFault

Make = Callable[..., Any]

READ_ALL = """
found = discover(node="n1")
answer([{"identity": plain(d.identity), "fast": plain(d.read_fast()), "slow": plain(d.read_slow())} for d in found.devices])
"""


@pytest.fixture(scope="module")
def cards(shim: Make) -> dict[str, dict[str, Any]]:
    listed = shim("T4,L4,A100,H200").run(READ_ALL)
    return {card["identity"]["pool"]: card for card in listed}


def test_every_card_is_found_with_its_identity(cards: dict[str, dict[str, Any]]) -> None:
    assert list(cards) == ["t4", "l4", "a100", "h200"]
    assert cards["h200"]["identity"] == {
        "uuid": "GPU-00000000-0000-0000-0000-000000000004", "index": 3, "name": "NVIDIA H200", "pool": "h200",
        "architecture": "Hopper", "pci_bus_id": "00000000:09:00.0", "driver_version": "580.159.04", "node": "n1",
        "mig_profile": None, "simulated": False,
    }  # fmt: skip


def test_units_are_converted_to_base_units(cards: dict[str, dict[str, Any]]) -> None:
    fast = cards["h200"]["fast"]
    assert (fast["power_instant_w"], fast["power_average_w"]) == pytest.approx((78.776, 78.304))
    assert fast["energy_j"] == pytest.approx(2449.235)
    assert fast["driver_power_cap_s"] == pytest.approx(45.35211392)
    assert (fast["clock_hz"]["sm"], fast["clock_hz"]["memory"]) == (345e6, 3201e6)
    assert (fast["utilization_ratio"], fast["memory_activity_ratio"]) == (0.42, 0.17)
    assert fast["memory_size_bytes"] == 150754820096
    assert cards["h200"]["slow"]["power_limit_w"] == {"enforced": 700, "default": 700, "min": 200, "max": 700}


def test_power_without_fields_goes_to_the_window_its_chip_has(cards: dict[str, dict[str, Any]]) -> None:
    for pool, watts in (("t4", 31.5), ("a100", 61.0)):
        assert (cards[pool]["fast"]["power_instant_w"], cards[pool]["fast"]["power_average_w"]) == (watts, None)


def test_limits_come_from_thresholds_or_from_the_margin(cards: dict[str, dict[str, Any]]) -> None:
    assert cards["t4"]["slow"]["temperature_limit_c"] == {"shutdown": 95, "slowdown": 89, "memory_max": 95, "gpu_max": 87}
    # An L4 at 44 C with a margin of 36 C slows down at 80 C; its offsets are -8 and -2.
    assert cards["l4"]["slow"]["temperature_limit_c"] == {"shutdown": 88, "slowdown": 82, "gpu_max": 80}
    assert (cards["t4"]["slow"]["temperature_margin_c"], cards["l4"]["slow"]["temperature_margin_c"]) == (None, 36)


def test_what_a_card_lacks_is_absent(cards: dict[str, dict[str, Any]]) -> None:
    t4, h200 = cards["t4"], cards["h200"]
    assert (t4["fast"]["memory_temperature_c"], t4["slow"]["mig_mode"], t4["slow"]["row_remap_pending"]) == (None, None, None)
    assert (t4["slow"]["remapped_rows"], h200["slow"]["retired_pages"]) == ({}, {})
    assert (t4["slow"]["retired_pages"], h200["slow"]["remapped_rows"]) == (
        {"multiple_single_bit": 2, "double_bit": 0}, {"correctable": 1, "uncorrectable": 2},
    )  # fmt: skip
    assert (h200["slow"]["mig_mode"], h200["slow"]["row_remap_pending"], h200["fast"]["memory_temperature_c"]) == (
        False,
        True,
        36,
    )


def test_ecc_errors_are_told_apart_by_kind_and_scope(cards: dict[str, dict[str, Any]]) -> None:
    counts = cards["l4"]["slow"]["ecc_errors"]
    assert counts == {
        "('corrected', 'volatile')": 0, "('corrected', 'aggregate')": 1,
        "('uncorrected', 'volatile')": 10, "('uncorrected', 'aggregate')": 11,
    }  # fmt: skip


def test_an_older_library_is_read_by_the_older_names(shim: Make) -> None:
    machine = shim("A100", age="old")
    [card] = machine.run(READ_ALL)
    assert (card["fast"]["throttle_mask"], card["fast"]["temperature_c"]) == (1, 37)
    called = machine.log.read_text().split()
    assert {"nvmlDeviceGetCurrentClocksThrottleReasons", "nvmlDeviceGetTemperature"} <= set(called)


def test_a_newer_library_is_not_asked_by_the_older_names(shim: Make) -> None:
    machine = shim("H200")
    machine.run(READ_ALL)
    called = machine.log.read_text().split()
    assert not {"nvmlDeviceGetCurrentClocksThrottleReasons", "nvmlDeviceGetTemperature"} & set(called)


def test_a_call_that_is_not_supported_is_asked_and_counted_once(shim: Make) -> None:
    machine = shim("L4")
    machine.control.write_text("unsupported=nvmlDeviceGetTotalEnergyConsumption")
    energies, errors = machine.run("""
        found = discover()
        [card] = found.devices
        answer([[card.read_fast().energy_j for _ in range(3)], {"/".join(k): n for k, n in found.errors().items()}])
    """)
    assert energies == [None, None, None]
    assert errors["nvmlDeviceGetTotalEnergyConsumption/not_supported"] == 1
    assert machine.log.read_text().split().count("nvmlDeviceGetTotalEnergyConsumption") == 1


def test_a_call_that_fails_this_time_is_asked_again(shim: Make) -> None:
    watts, errors = shim("T4").run("""
        found = discover()
        [card] = found.devices
        control("fail=nvmlDeviceGetPowerUsage")
        failed = card.read_fast().power_instant_w
        control("")
        answer([[failed, card.read_fast().power_instant_w], {"/".join(k): n for k, n in found.errors().items()}])
    """)
    assert watts == [None, 31.5]
    assert errors["nvmlDeviceGetPowerUsage/unknown"] == 1


def test_a_lost_gpu_is_called_no_more_until_it_is_reopened(shim: Make) -> None:
    lost, silent, after, other = shim("L4,H200").run("""
        first, second = discover().devices
        control("lost=0")
        def fails(read):
            try: read()
            except DeviceError as e: return str(e)
        lost = [fails(first.read_fast), fails(first.reopen)]
        before = len(calls())
        lost += [fails(first.read_fast), fails(first.read_slow)]
        silent = len(calls()) - before
        control("")
        first.reopen()
        answer([lost, silent, first.read_fast().temperature_c, second.read_fast().temperature_c])
    """)
    assert all("is lost" in message or "did not come back" in message for message in lost)
    assert silent == 0
    assert (after, other) == (44, 35)


def test_the_other_gpus_follow_a_restart_with_new_handles(shim: Make) -> None:
    temperatures = shim("L4,H200").run("""
        first, second = discover().devices
        first.reopen()
        answer([second.read_fast().temperature_c, first.read_fast().temperature_c])
    """)
    assert temperatures == [35, 44]


def test_throttling_and_a_narrowed_link_are_read(shim: Make) -> None:
    machine = shim("A100")
    machine.control.write_text("throttle=0x48 lanes=8")
    [card] = machine.run(READ_ALL)
    assert card["fast"]["throttle_mask"] == 0x48
    assert card["slow"]["pcie_lanes"] == {"current": 8, "max": 16}


@pytest.mark.parametrize(
    ("pid", "own", "owner"),
    [
        (4321, "lambda: {4321}", "self"),
        (4321, "lambda: {1}", "foreign"),
        (0, "lambda: {1}", "unknown"),
        (4321, "None", "unknown"),
    ],
)
def test_processes_are_told_apart_by_owner(shim: Make, pid: int, own: str, owner: str) -> None:
    machine = shim("L4")
    machine.control.write_text(f"pid={pid}")
    groups = machine.run(f"""
        [card] = discover(own_pids={own}).devices
        answer([[g.owner, g.count, g.memory_bytes] for g in card.read_slow().processes])
    """)
    expected = [[name, int(name == owner), 2**30 if name == owner else 0] for name in ("self", "foreign", "unknown")]
    assert groups == expected


@pytest.mark.skipif(ctypes.util.find_library("nvidia-ml") is not None, reason="this machine has a driver library")
def test_a_machine_without_a_driver_library_says_so(tmp_path: object) -> None:
    code = "from monitoring.nvml import discover; d = discover(); print(len(d.devices), d.reason, dict(d.errors()))"
    environment = {**os.environ, "LD_LIBRARY_PATH": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.startswith("0 no NVIDIA driver library on this machine {('nvmlInit', 'library_not_found'): 1}")


def test_a_library_without_a_kernel_driver_says_so(shim: Make) -> None:
    machine = shim("L4")
    machine.control.write_text("driver=0")
    count, reason = machine.run("found = discover(); answer([len(found.devices), found.reason])")
    assert (count, reason) == (0, "the NVIDIA driver library is here, but the kernel driver is not loaded")


def test_every_return_code_of_the_binding_has_a_consequence() -> None:
    import pynvml

    names = {name.removeprefix("NVML_ERROR_") for name in dir(pynvml) if name.startswith("NVML_ERROR_")}
    assert names
    assert names == set(CONSEQUENCES)


def test_a_fault_carries_its_call_and_consequence() -> None:
    fault = NvmlFault("nvmlDeviceGetName", "GPU_IS_LOST")
    assert (fault.call, fault.error, fault.consequence) == ("nvmlDeviceGetName", "GPU_IS_LOST", Consequence.LOST)
