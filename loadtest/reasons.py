"""Name each reason for which a comparison does not count, with the sentence that explains it."""

from enum import StrEnum

from bakeoff.closed import Closed


class Reason(StrEnum):
    """Name what invalidates a comparison."""

    ERRORS = "ERRORS"
    CLIENT_TIMEOUT_CENSORED = "CLIENT_TIMEOUT_CENSORED"
    SEND_LAG = "SEND_LAG"
    RATE_NOT_ACHIEVED = "RATE_NOT_ACHIEVED"
    BACKLOG_GROWING = "BACKLOG_GROWING"
    TOO_FEW_SAMPLES = "TOO_FEW_SAMPLES"
    WRONG_ARM = "WRONG_ARM"
    TELEMETRY_GAP = "TELEMETRY_GAP"
    ACCURACY_GATE = "ACCURACY_GATE"
    SIMULATED_DEVICE = "SIMULATED_DEVICE"
    THROTTLE_HW_SLOWDOWN = "THROTTLE_HW_SLOWDOWN"
    THROTTLE_HW_THERMAL = "THROTTLE_HW_THERMAL"
    THROTTLE_SW_THERMAL = "THROTTLE_SW_THERMAL"
    POWER_BRAKE = "POWER_BRAKE"
    ENERGY_DISAGREES = "ENERGY_DISAGREES"


EXPLANATIONS: dict[Reason, str] = {
    Reason.ERRORS: "More requests failed than an arm may lose: a server that drops work looks faster than it is.",
    Reason.CLIENT_TIMEOUT_CENSORED: "The client gave up on requests, so how long their answers would have taken is unknown.",
    Reason.SEND_LAG: "Requests left the load generator too late: its own delay is part of the latency it reports.",
    Reason.RATE_NOT_ACHIEVED: "Fewer requests were sent than the schedule held, so the arm was not under the planned load.",
    Reason.BACKLOG_GROWING: "Requests in flight kept rising: the arm cannot sustain this rate, and latency depends on the run's length.",
    Reason.TOO_FEW_SAMPLES: "There are fewer requests or blocks than the claim needs.",
    Reason.WRONG_ARM: "Answers do not name the arm they were meant for, so the figures may be of another arm.",
    Reason.TELEMETRY_GAP: "Telemetry is missing for part of a counted run: what the hardware did then is unknown.",
    Reason.ACCURACY_GATE: "An arm does not demonstrably keep the accuracy that the experiment asks for.",
    Reason.SIMULATED_DEVICE: "Figures come from a simulated engine or device and say nothing about hardware.",
    Reason.THROTTLE_HW_SLOWDOWN: "The GPU's hardware cut its clocks: cooling or power supply is at fault, not the card's speed.",
    Reason.THROTTLE_HW_THERMAL: "The GPU's hardware cut its clocks because it was too hot.",
    Reason.THROTTLE_SW_THERMAL: "The driver lowered the GPU's clocks because it was too hot.",
    Reason.POWER_BRAKE: "The system's power brake cut the GPU's clocks.",
    Reason.ENERGY_DISAGREES: "The GPU's energy counter and the integral of its power differ too much for either to be trusted.",
}


class Finding(Closed):
    """State one thing that was found wrong, and where."""

    reason: Reason
    detail: str
    """What was found and what was allowed."""
    arm: str | None = None
    """Arm it was found on; null when it concerns the comparison."""
