"""Draw random weights reproducibly.

Imported only where torch runs.
"""

from collections.abc import Callable

import torch
from torch import nn


def drawn(architecture: Callable[[], nn.Module], seed: int) -> nn.Module:
    """Build an architecture with seeded random weights, leaving the global generator as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return architecture()
