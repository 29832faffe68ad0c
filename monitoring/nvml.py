"""Read GPUs through NVML; a figure that a card, driver or container does not offer is None."""

import logging
from collections.abc import Iterable
from typing import Any, Final

from bakeoff.errors import DeviceError
from monitoring.device import Discovery, FastReading, Identity, OwnPids, SlowReading
from monitoring.nvmllibrary import Consequence, NvmlFault, NvmlLibrary
from monitoring.pools import Pools
from monitoring.processes import group_by_owner

log = logging.getLogger(__name__)

MEMORY_INFO_V2: Final = 0x02000028
ARCHITECTURES: Final = {5: "Volta", 6: "Turing", 7: "Ampere", 8: "Ada", 9: "Hopper", 10: "Blackwell"}
CLOCK_DOMAINS: Final = {"graphics": 0, "sm": 1, "memory": 2, "video": 3}
TEMPERATURE_LIMITS: Final = {"shutdown": 0, "slowdown": 1, "memory_max": 2, "gpu_max": 3}
TEMPERATURE_OFFSET_FIELDS: Final = {"shutdown": 193, "slowdown": 194, "gpu_max": 196}
ECC_KINDS: Final = {"corrected": 0, "uncorrected": 1}
ECC_SCOPES: Final = {"volatile": 0, "aggregate": 1}
RETIREMENT_CAUSES: Final = {"multiple_single_bit": 0, "double_bit": 1}
FIELD_POWER_CAP, FIELD_MEMORY_TEMPERATURE, FIELD_POWER_AVERAGE, FIELD_POWER_INSTANT = 74, 82, 185, 186
FAST_FIELDS: Final = (FIELD_POWER_CAP, FIELD_MEMORY_TEMPERATURE, FIELD_POWER_AVERAGE, FIELD_POWER_INSTANT)
VALUE_MEMBERS: Final = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")
"""Member of NVML's value union for each value type, in the order of `nvmlValueType_t`."""
INSTANT_POWER_CARDS: Final = ("A100", "A30")
"""Ampere cards with the GA100 chip, whose power reading is no one-second mean (nvml.h, nvmlDeviceGetPowerUsage)."""


def discover(pools: Pools | None = None, node: str | None = None, own_pids: OwnPids | None = None) -> Discovery:
    """Find this machine's GPUs, or say why there are none; a GPU that cannot be opened is logged and left out."""
    library = NvmlLibrary()
    pools = pools or Pools()
    try:
        library.open()
        count = library.call("nvmlDeviceGetCount")
    except DeviceError as e:
        return Discovery((), str(e), library.errors)
    found = [_open(library, index, pools, node, own_pids) for index in range(count)]
    devices = tuple(device for device in found if device is not None)
    return Discovery(devices, None if devices else "the NVIDIA driver lists no GPU that answers", library.errors)


def _open(library: NvmlLibrary, index: int, pools: Pools, node: str | None, own_pids: OwnPids | None) -> "NvmlDevice | None":
    try:
        handle = library.call("nvmlDeviceGetHandleByIndex", index)
        uuid = str(library.call("nvmlDeviceGetUUID", handle))
        name = str(library.call("nvmlDeviceGetName", handle))
    except NvmlFault as e:
        log.warning("GPU %d is left out: %s", index, e)
        return None
    identity = Identity(uuid, index, name, pools.pool_of(uuid, index, name), node=node)
    return NvmlDevice(library, handle, identity, own_pids)


class NvmlDevice:
    """Read one GPU; after it is lost nothing is called with its handle until `reopen` succeeds."""

    def __init__(self, library: NvmlLibrary, handle: object, identity: Identity, own_pids: OwnPids | None) -> None:
        self._library = library
        self._handle = handle
        self._generation = library.generation
        self._own_pids = own_pids
        self._lost: str | None = None
        self._never: set[object] = set()
        self.identity = identity
        try:
            self.identity = self._identify(identity)
        except DeviceError as e:
            log.warning("GPU %d was lost while it was identified: %s", identity.index, e)

    def reopen(self) -> None:
        """Restart NVML and find the GPU by its uuid; raise DeviceError while either does not answer."""
        self._library.restart()
        self._lost = None
        self._renew_handle()

    def read_fast(self) -> FastReading:
        """Return what changes within a second; raise DeviceError when the GPU is lost."""
        fields = self._fields(FAST_FIELDS)
        instant_mw, average_mw = self._power_mw(fields)
        memory = self._memory()
        utilization = self._ask("nvmlDeviceGetUtilizationRates")
        return FastReading(
            throttle_mask=self._either("nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"),
            power_instant_w=_scaled(instant_mw, 1e-3),
            power_average_w=_scaled(average_mw, 1e-3),
            energy_j=_scaled(self._ask("nvmlDeviceGetTotalEnergyConsumption"), 1e-3),
            driver_power_cap_s=_scaled(fields.get(FIELD_POWER_CAP), 1e-9),
            clock_hz=self._clocks("nvmlDeviceGetClockInfo"),
            temperature_c=self._temperature_c(),
            memory_temperature_c=fields.get(FIELD_MEMORY_TEMPERATURE),
            utilization_ratio=None if utilization is None else utilization.gpu / 100,
            memory_activity_ratio=None if utilization is None else utilization.memory / 100,
            memory_used_bytes=None if memory is None else memory.used,
            memory_size_bytes=None if memory is None else memory.total,
            memory_reserved_bytes=getattr(memory, "reserved", None),
            performance_state=_below(self._ask("nvmlDeviceGetPerformanceState"), 32),
        )

    def read_slow(self) -> SlowReading:
        """Return what changes by the minute; raise DeviceError when the GPU is lost."""
        remapped = self._ask("nvmlDeviceGetRemappedRows")
        margin_c = self._ask("nvmlDeviceGetMarginTemperature")
        return SlowReading(
            power_limit_w=self._power_limits_w(),
            clock_max_hz=self._clocks("nvmlDeviceGetMaxClockInfo"),
            temperature_limit_c=self._temperature_limits_c(margin_c),
            temperature_margin_c=margin_c,
            pcie_generation=self._link("nvmlDeviceGetCurrPcieLinkGeneration", "nvmlDeviceGetMaxPcieLinkGeneration"),
            pcie_lanes=self._link("nvmlDeviceGetCurrPcieLinkWidth", "nvmlDeviceGetMaxPcieLinkWidth"),
            pcie_replays=self._ask("nvmlDeviceGetPcieReplayCounter"),
            ecc_enabled=_flag(_first(self._ask("nvmlDeviceGetEccMode"))),
            ecc_errors=self._ecc_errors(),
            remapped_rows={} if remapped is None else {"correctable": remapped[0], "uncorrectable": remapped[1]},
            row_remap_pending=None if remapped is None else bool(remapped[2]),
            row_remap_failed=None if remapped is None else bool(remapped[3]),
            retired_pages=self._retired_pages(),
            processes=self._processes(),
            persistence_mode=_flag(self._ask("nvmlDeviceGetPersistenceMode")),
            mig_mode=_flag(_first(self._ask("nvmlDeviceGetMigMode"))),
        )

    def _identify(self, known: Identity) -> Identity:
        pci = self._ask("nvmlDeviceGetPciInfo")
        return Identity(
            uuid=known.uuid,
            index=known.index,
            name=known.name,
            pool=known.pool,
            architecture=ARCHITECTURES.get(self._ask("nvmlDeviceGetArchitecture")),
            pci_bus_id=None if pci is None else _text(pci.busId),
            driver_version=self._library.call("nvmlSystemGetDriverVersion"),
            node=known.node,
        )

    def _ask(self, name: str, *arguments: object) -> Any:
        """Return what a call gives, or None when the device does not offer it or it fails this time."""
        if self._lost is not None:
            raise DeviceError(f"GPU {self.identity.uuid} is lost: {self._lost}")
        if (name, arguments) in self._never:
            return None
        self._follow_restart()
        try:
            return self._library.call(name, self._handle, *arguments)
        except NvmlFault as e:
            return self._absent((name, arguments), e)

    def _either(self, *names: str, arguments: tuple[object, ...] = ()) -> Any:
        answers = (self._ask(name, *arguments) for name in names)
        return next((answer for answer in answers if answer is not None), None)

    def _absent(self, key: object, fault: NvmlFault) -> None:
        if fault.consequence is Consequence.LOST:
            self._lost = str(fault)
            raise DeviceError(f"GPU {self.identity.uuid} is lost: {fault}") from fault
        if fault.consequence is Consequence.NEVER:
            self._never.add(key)

    def _follow_restart(self) -> None:
        if self._generation != self._library.generation:
            self._renew_handle()

    def _renew_handle(self) -> None:
        try:
            self._handle = self._library.call("nvmlDeviceGetHandleByUUID", self.identity.uuid)
        except NvmlFault as e:
            self._lost = str(e)
            raise DeviceError(f"GPU {self.identity.uuid} did not come back: {e}") from e
        self._generation = self._library.generation
        self._never.clear()

    def _fields(self, ids: Iterable[int]) -> dict[int, float]:
        values = self._ask("nvmlDeviceGetFieldValues", tuple(ids))
        return {v.fieldId: getattr(v.value, VALUE_MEMBERS[v.valueType]) for v in values or () if v.nvmlReturn == 0}

    def _power_mw(self, fields: dict[int, float]) -> tuple[float | None, float | None]:
        instant, average = fields.get(FIELD_POWER_INSTANT), fields.get(FIELD_POWER_AVERAGE)
        if instant is not None or average is not None:
            return instant, average
        usage = self._ask("nvmlDeviceGetPowerUsage")
        return (usage, None) if self._power_usage_is_instant() else (None, usage)

    def _power_usage_is_instant(self) -> bool:
        older = self.identity.architecture in {"Volta", "Turing"}
        return older or any(card in self.identity.name for card in INSTANT_POWER_CARDS)

    def _memory(self) -> Any:
        """Return the newer structure, whose `used` leaves out what the driver reserves; else the older, which includes it."""
        newer = self._ask("nvmlDeviceGetMemoryInfo", MEMORY_INFO_V2)
        return self._ask("nvmlDeviceGetMemoryInfo") if newer is None else newer

    def _temperature_c(self) -> float | None:
        answer = self._either("nvmlDeviceGetTemperatureV", "nvmlDeviceGetTemperature", arguments=(0,))
        return None if answer is None else float(answer)

    def _clocks(self, call: str) -> dict[str, float]:
        megahertz = {domain: self._ask(call, number) for domain, number in CLOCK_DOMAINS.items()}
        return {domain: mhz * 1e6 for domain, mhz in megahertz.items() if mhz is not None}

    def _power_limits_w(self) -> dict[str, float]:
        low_high = self._ask("nvmlDeviceGetPowerManagementLimitConstraints") or (None, None)
        limits_mw = {
            "enforced": self._ask("nvmlDeviceGetEnforcedPowerLimit"),
            "default": self._ask("nvmlDeviceGetPowerManagementDefaultLimit"),
            "min": low_high[0],
            "max": low_high[1],
        }
        return {limit: mw / 1000 for limit, mw in limits_mw.items() if mw is not None}

    def _temperature_limits_c(self, margin_c: float | None) -> dict[str, float]:
        """Return thresholds where the card has them; else limits from the margin and the offsets that replaced them.

        On an H200 both agree: 35 C and a margin of 52 C give 87 C; offsets of -2 and -8 give 89 and 95 C.
        """
        asked = {limit: self._ask("nvmlDeviceGetTemperatureThreshold", number) for limit, number in TEMPERATURE_LIMITS.items()}
        limits = {limit: float(celsius) for limit, celsius in asked.items() if celsius is not None}
        now_c = None if limits or margin_c is None else self._temperature_c()
        if now_c is None or margin_c is None:
            return limits
        offsets = self._fields(TEMPERATURE_OFFSET_FIELDS.values())
        return {limit: now_c + margin_c - offsets[f] for limit, f in TEMPERATURE_OFFSET_FIELDS.items() if f in offsets}

    def _link(self, current: str, highest: str) -> dict[str, int]:
        answers = {"current": self._ask(current), "max": self._ask(highest)}
        return {kind: value for kind, value in answers.items() if value is not None}

    def _ecc_errors(self) -> dict[tuple[str, str], int]:
        counts = {
            (kind, scope): self._ask("nvmlDeviceGetTotalEccErrors", k, s)
            for kind, k in ECC_KINDS.items()
            for scope, s in ECC_SCOPES.items()
        }
        return {key: count for key, count in counts.items() if count is not None}

    def _retired_pages(self) -> dict[str, int]:
        pages = {cause: self._ask("nvmlDeviceGetRetiredPages", number) for cause, number in RETIREMENT_CAUSES.items()}
        return {cause: len(addresses) for cause, addresses in pages.items() if addresses is not None}

    def _processes(self) -> Any:
        kinds = ("Compute", "Graphics", "MPSCompute")
        lists = [self._ask(f"nvmlDeviceGet{kind}RunningProcesses_v3") for kind in kinds]
        if all(listed is None for listed in lists):
            return ()
        entries = [(p.pid, p.usedGpuMemory) for listed in lists for p in listed or ()]
        known = {pid: memory for pid, memory in entries if pid != 0}
        hidden = [entry for entry in entries if entry[0] == 0]
        return group_by_owner([*known.items(), *hidden], None if self._own_pids is None else self._own_pids())


def _scaled(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor


def _below(value: int | None, limit: int) -> int | None:
    return value if value is not None and value < limit else None


def _flag(value: int | None) -> bool | None:
    return None if value is None else bool(value)


def _first(values: Any) -> int | None:
    return None if values is None else int(values[0])


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
