"""Choose and check the inputs that INT8 activation ranges are read from."""

from typing import Literal

from bakeoff.errors import SourceError

Method = Literal["minmax", "entropy", "percentile"]
MINIMUM_SAMPLES = 16
MOST_HISTOGRAM_SAMPLES = 256


def require_samples(n: int, method: Method) -> None:
    """Raise SourceError unless n calibration samples are enough, and few enough to be held in memory."""
    if n < MINIMUM_SAMPLES:
        raise SourceError(
            f"calibration is too small: {n} samples, at least {MINIMUM_SAMPLES} are needed. Raise calibration_samples."
        )
    if method != "minmax" and n > MOST_HISTOGRAM_SAMPLES:
        raise SourceError(
            f"{method} calibration holds every activation of every sample: {n} samples, at most {MOST_HISTOGRAM_SAMPLES} fit. "
            "Lower calibration_samples or choose minmax."
        )
