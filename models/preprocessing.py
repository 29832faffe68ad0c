"""Say how a weight set wants its pixels."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Preprocessing:
    """Normalise an RGB pixel p of 0 to 255 to (p / 255 - mean) / std, channel by channel."""

    mean: tuple[float, float, float]
    std: tuple[float, float, float]

    @property
    def scale(self) -> tuple[float, ...]:
        """Return the factor of each channel's raw pixel."""
        return tuple(1 / (255 * std) for std in self.std)

    @property
    def offset(self) -> tuple[float, ...]:
        """Return what is added to each channel after scaling."""
        return tuple(-mean / std for mean, std in zip(self.mean, self.std, strict=True))

    def __str__(self) -> str:
        """Write mean and standard deviation in pixel units."""
        mean, std = (tuple(round(255 * value, 3) for value in values) for values in (self.mean, self.std))
        return f"RGB, 224 x 224, (pixel - {mean}) / {std}"


IMAGENET = Preprocessing((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
"""Statistics of ImageNet that torchvision's weights were trained with."""

SIGNED_UNIT = Preprocessing((127 / 255,) * 3, (128 / 255,) * 3)
"""Range of about -1 to 1 that the EfficientNet-Lite weights were trained with."""
