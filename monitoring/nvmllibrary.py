"""Hold the one connection to NVML, and translate its errors in one table.

The binding is the module `pynvml` of the distribution nvidia-ml-py, imported when the library is opened.
"""

from collections import Counter
from collections.abc import Mapping
from enum import Enum, auto
from typing import Any

from bakeoff.errors import DeviceError
from monitoring.device import ErrorCounts


class Consequence(Enum):
    """Say what a failed call means for the next one."""

    NEVER = auto()
    """This device does not offer the call: do not ask again."""
    NOT_NOW = auto()
    """The call failed this time: ask again at the next reading."""
    LOST = auto()
    """The device or the driver is gone: call nothing more with this handle."""


CONSEQUENCES: Mapping[str, Consequence] = {
    "NOT_SUPPORTED": Consequence.NEVER,
    "FUNCTION_NOT_FOUND": Consequence.NEVER,
    "INVALID_ARGUMENT": Consequence.NEVER,
    "ARGUMENT_VERSION_MISMATCH": Consequence.NEVER,
    "DEPRECATED": Consequence.NEVER,
    "NO_PERMISSION": Consequence.NEVER,
    "VGPU_ECC_NOT_SUPPORTED": Consequence.NEVER,
    "FREQ_NOT_SUPPORTED": Consequence.NEVER,
    "RESET_TYPE_NOT_SUPPORTED": Consequence.NEVER,
    "ALREADY_INITIALIZED": Consequence.NOT_NOW,
    "NOT_FOUND": Consequence.NOT_NOW,
    "INSUFFICIENT_SIZE": Consequence.NOT_NOW,
    "INSUFFICIENT_POWER": Consequence.NOT_NOW,
    "INSUFFICIENT_RESOURCES": Consequence.NOT_NOW,
    "TIMEOUT": Consequence.NOT_NOW,
    "IRQ_ISSUE": Consequence.NOT_NOW,
    "CORRUPTED_INFOROM": Consequence.NOT_NOW,
    "OPERATING_SYSTEM": Consequence.NOT_NOW,
    "IN_USE": Consequence.NOT_NOW,
    "MEMORY": Consequence.NOT_NOW,
    "NO_DATA": Consequence.NOT_NOW,
    "NOT_READY": Consequence.NOT_NOW,
    "INVALID_STATE": Consequence.NOT_NOW,
    "UNKNOWN": Consequence.NOT_NOW,
    "UNINITIALIZED": Consequence.LOST,
    "DRIVER_NOT_LOADED": Consequence.LOST,
    "LIBRARY_NOT_FOUND": Consequence.LOST,
    "LIB_RM_VERSION_MISMATCH": Consequence.LOST,
    "GPU_IS_LOST": Consequence.LOST,
    "GPU_NOT_FOUND": Consequence.LOST,
    "RESET_REQUIRED": Consequence.LOST,
}
"""What each NVML return code means, by its name in nvml.h without `NVML_ERROR_`."""

UNRECOGNISED = "UNRECOGNISED"
REASONS: Mapping[str, str] = {
    "LIBRARY_NOT_FOUND": "no NVIDIA driver library on this machine",
    "DRIVER_NOT_LOADED": "the NVIDIA driver library is here, but the kernel driver is not loaded",
    "LIB_RM_VERSION_MISMATCH": "the NVIDIA driver library and the kernel driver have different versions: reboot the machine",
    "NO_PERMISSION": "no permission to talk to the NVIDIA driver: give this process the GPU device files",
}


class NvmlFault(DeviceError):
    """Carry one failed NVML call: which call, the name of its error, and the consequence."""

    def __init__(self, call: str, error: str) -> None:
        super().__init__(f"NVML call {call} failed: {error.lower()}")
        self.call = call
        self.error = error
        self.consequence = CONSEQUENCES.get(error, Consequence.NOT_NOW)


class NvmlLibrary:
    """Be the process's connection to NVML; every handle belongs to one `generation` of it."""

    def __init__(self) -> None:
        self.generation = 0
        self._failures: Counter[tuple[str, str]] = Counter()

    def open(self) -> None:
        """Connect to the driver, or raise DeviceError with the reason that no GPU can be read."""
        try:
            self.call("nvmlInit")
        except ImportError as e:
            raise DeviceError("the NVML binding is not installed: install nvidia-ml-py") from e
        except NvmlFault as e:
            raise DeviceError(REASONS.get(e.error, f"NVML cannot start: {e.error.lower()}")) from e
        self.generation += 1

    def restart(self) -> None:
        """Connect anew, which makes every earlier handle invalid; raise DeviceError while the driver does not answer."""
        self.close()
        self.open()

    def close(self) -> None:
        """Disconnect from the driver; a driver that is already gone is no error."""
        try:
            self.call("nvmlShutdown")
        except NvmlFault:
            return

    def call(self, name: str, *arguments: object) -> Any:
        """Return what one call of the binding gives, or count its failure and raise NvmlFault."""
        import pynvml

        function = getattr(pynvml, name, None)
        try:
            if function is None:
                raise self._fault(name, "FUNCTION_NOT_FOUND")
            return function(*arguments)
        except pynvml.NVMLError as e:
            raise self._fault(name, error_name(e.value)) from e

    def errors(self) -> ErrorCounts:
        """Return how often each (call, error) has happened; a call that a device never offers counts once."""
        return dict(self._failures)

    def _fault(self, call: str, error: str) -> NvmlFault:
        self._failures[call, error.lower()] += 1
        return NvmlFault(call, error)


def error_name(code: int) -> str:
    """Return the name of an NVML return code, or UNRECOGNISED for one the table does not hold."""
    import pynvml

    for name in CONSEQUENCES:
        if getattr(pynvml, f"NVML_ERROR_{name}", None) == code:
            return name
    return UNRECOGNISED
