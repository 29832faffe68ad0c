"""Compare answers with labels and with each other: pure figures, no engine."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Flags = NDArray[np.bool_]
Integers = NDArray[np.integer[Any]]
Reals = NDArray[np.floating[Any]]


def correct(probabilities: Reals, labels: Integers) -> Flags:
    """Say for each row whether its most probable class is the label; a row with a non-finite value is wrong.

    `probabilities` has shape (n, classes), `labels` and the answer (n,).
    """
    _require_same_length(probabilities, labels)
    finite = np.isfinite(probabilities).all(axis=1)
    return np.asarray(finite & (probabilities.argmax(axis=1) == labels), dtype=np.bool_)


def top1(probabilities: Reals, labels: Integers) -> float:
    """Return the share of rows whose most probable class is the label."""
    return float(correct(probabilities, labels).mean())


def agreement(a: Reals, b: Reals) -> float:
    """Return the share of rows on which two sets of outputs, both (n, classes), choose the same class."""
    _require_same_length(a, b)
    return float((a.argmax(axis=1) == b.argmax(axis=1)).mean())


def mean_cosine(a: Reals, b: Reals) -> float:
    """Return the mean cosine similarity of corresponding rows; a row of zeros counts 0."""
    _require_same_length(a, b)
    x, y = a.astype(np.float64), b.astype(np.float64)
    lengths = np.linalg.norm(x, axis=1) * np.linalg.norm(y, axis=1)
    dots = (x * y).sum(axis=1)
    return float(np.divide(dots, lengths, out=np.zeros_like(dots), where=lengths > 0).mean())


def ratio(arm: Flags, reference: Flags) -> float:
    """Return an arm's accuracy over its reference's on the same inputs; raise ValueError when the reference got none right."""
    _require_same_length(arm, reference)
    if not reference.any():
        raise ValueError("the reference answered nothing right: a ratio to it says nothing. Check weights and labels.")
    return float(arm.sum() / reference.sum())


def ratio_lower95(arm: Flags, reference: Flags, groups: Integers | None = None, resamples: int = 10_000, seed: int = 0) -> float:
    """Return the one-sided lower 95 % bound of `ratio`: the 5th percentile of a seeded paired bootstrap.

    Both arms' answers to one input are drawn together. With `groups` whole groups are drawn, as inputs that are views of one
    picture are not independent (Efron and Tibshirani, An Introduction to the Bootstrap, 1993, chapters 8 and 13).
    """
    ratio(arm, reference)
    arm_right, reference_right = _totals(arm, groups), _totals(reference, groups)
    rng = np.random.default_rng(seed)
    draws = rng.multinomial(len(arm_right), np.full(len(arm_right), 1 / len(arm_right)), size=resamples)
    above, below = draws @ arm_right, draws @ reference_right
    drawable = below > 0
    return float(np.quantile(above[drawable] / below[drawable], 0.05))


def _totals(flags: Flags, groups: Integers | None) -> NDArray[np.float64]:
    if groups is None:
        return flags.astype(np.float64)
    _require_same_length(flags, groups)
    _, member_of = np.unique(groups, return_inverse=True)
    return np.bincount(member_of, weights=flags).astype(np.float64)


def _require_same_length(a: NDArray[Any], b: NDArray[Any]) -> None:
    if len(a) != len(b) or len(a) == 0:
        raise ValueError(f"expected as many rows in both, and at least one; found {len(a)} and {len(b)}")
