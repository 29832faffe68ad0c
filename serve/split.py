"""Cut the key space among a model's arms; pure.

A request's key is hashed to one of 10,000 buckets; the first arm whose cut point lies above the bucket gets it. Equal keys
get equal arms as long as the weights stand, whatever the protocol, the replica or the front door.
"""

from collections.abc import Mapping

BUCKETS = 10_000


def cut_points(weights: Mapping[str, float]) -> dict[str, int]:
    """Return each arm's upper bucket bound, in the order of `weights`; the last arm with any weight ends at 10,000.

    `weights` are not negative and not all 0. An arm of weight 0 gets the bound of its predecessor, so no bucket.
    """
    total = sum(weights.values())
    if total <= 0 or min(weights.values()) < 0:
        raise ValueError(f"weights must not be negative nor all 0: {dict(weights)}")
    cuts: dict[str, int] = {}
    reached = 0.0
    for arm, weight in weights.items():
        reached += weight
        cuts[arm] = round(BUCKETS * reached / total)
    return cuts


def arm_of(bucket: int, cuts: Mapping[str, int]) -> str:
    """Return the arm that a bucket from 0 to 9,999 falls to."""
    for arm, cut in cuts.items():
        if bucket < cut:
            return arm
    raise ValueError(f"bucket {bucket} is beyond the last cut of {dict(cuts)}")
