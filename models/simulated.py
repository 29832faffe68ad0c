"""Echo the input after a chosen time: a deterministic engine for tests, load generator checks and demonstrations."""

import time
from collections.abc import Mapping, Sequence

from bakeoff.hosting import SimulatedEngine
from models.servable import Signature, Tensors, TensorSpec, require_within

SIGNATURE = Signature(
    inputs=(TensorSpec("INPUT0", "FP32", (-1,)),),
    outputs=(TensorSpec("OUTPUT0", "FP32", (-1,)),),
)
SPIN_S = 0.0002
"""Last part of a wait that is spun: a sleep ends late by about this much."""


class EchoServable:
    """Answer OUTPUT0 = INPUT0 once the batch's service time has passed."""

    signature: Signature
    metadata: Mapping[str, str]

    def __init__(self, engine: SimulatedEngine) -> None:
        self._engine = engine
        self.signature = SIGNATURE
        self.metadata = {
            "simulated": "true",
            "engine": "simulated",
            "precision": "fp32",
            "service_time_s": repr(engine.service_time_s),
            "per_item_s": repr(engine.per_item_s),
        }

    def warm_up(self, batch_sizes: Sequence[int]) -> None:
        """Do nothing: the first call is as fast as any."""

    def run(self, inputs: Tensors) -> Tensors:
        """Block for the batch's service time, then answer with the input."""
        began = time.monotonic()
        require_within(self.signature, inputs)
        given = inputs["INPUT0"]
        wait_until(began + self.service_time_s(len(given)))
        return {"OUTPUT0": given}

    def service_time_s(self, n: int) -> float:
        """Return how long a batch of n items takes."""
        return self._engine.service_time_s + n * self._engine.per_item_s

    def close(self) -> None:
        """Do nothing: there is nothing to give back."""


def wait_until(due: float) -> None:
    """Block until `time.monotonic()` reaches `due`: sleep, then spin for the last fraction of a millisecond."""
    remaining = due - time.monotonic()
    if remaining > SPIN_S:
        time.sleep(remaining - SPIN_S)
    while time.monotonic() < due:
        pass
