"""Hold a network that is loaded and ready for an engine."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from models.servable import Signature

if TYPE_CHECKING:
    from torch import nn


@dataclass(frozen=True)
class Network:
    """Join a module that answers wire tensors, given by name, with one output, and what is known of it.

    `body` is the part whose weights take a lower precision; what lies around it stays in FP32.
    """

    module: "nn.Module"
    body: "nn.Module"
    signature: Signature
    facts: dict[str, str]
    channels_last: bool
