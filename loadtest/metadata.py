"""Read what a model takes and gives from its server, over the Open Inference Protocol."""

import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, ValidationError

from bakeoff.errors import LoadError

DATATYPES: dict[str, str] = {
    "BOOL": "bool",
    "BF16": "uint16",
    "FP16": "float16",
    "FP32": "float32",
    "FP64": "float64",
    **{f"{prefix}INT{bits}": f"{prefix.lower()}int{bits}" for prefix in ("", "U") for bits in (8, 16, 32, 64)},
}
"""numpy name of each datatype of fixed width; BF16 is kept as its bit pattern."""


class Tensor(BaseModel):
    """Describe one tensor as a server's metadata does; -1 stands for a dimension that varies."""

    model_config = ConfigDict(frozen=True)

    name: str
    datatype: str
    shape: tuple[int, ...]

    def concrete(self, items: int, length: int) -> tuple[int, ...]:
        """Return the shape for a number of items, with `length` for each further dimension that varies."""
        if not self.shape or self.shape[0] >= 0:
            if items != 1:
                raise LoadError(f"{self.name} has the fixed shape {list(self.shape)}: send 1 item a request, not {items}")
            return tuple(length if d < 0 else d for d in self.shape)
        return (items, *(length if d < 0 else d for d in self.shape[1:]))


class ModelMetadata(BaseModel):
    """Hold what a load generator has to know of a model; further keys of the answer are ignored."""

    model_config = ConfigDict(frozen=True)

    name: str
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]

    @classmethod
    def parse(cls, text: str | bytes) -> Self:
        """Read an answer's body; raise LoadError when it is no model metadata."""
        try:
            return cls.model_validate_json(text)
        except ValidationError as e:
            raise LoadError(f"not the metadata of a model: {e}") from e


def fetch_metadata(base_url: str, model: str, headers: Mapping[str, str] | None = None, timeout_s: float = 10) -> ModelMetadata:
    """Ask a server for a model's metadata; raise LoadError when it cannot be had."""
    url = f"{base_url.rstrip('/')}/v2/models/{model}"
    if not url.startswith(("http://", "https://")):
        raise LoadError(f"{base_url!r} is no base URL: write http://host:port")
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=dict(headers or {})), timeout=timeout_s) as answer:  # noqa: S310 (scheme checked above)
            return ModelMetadata.parse(answer.read())
    except urllib.error.HTTPError as e:
        raise LoadError(f"{url} answered {e.code}: {_reason(e.read())}. Is {model!r} served there?") from e
    except OSError as e:
        raise LoadError(f"cannot reach {url}: {e}. Is the server running?") from e


def _reason(body: bytes) -> Any:
    try:
        return json.loads(body)["error"]
    except (ValueError, KeyError, TypeError):
        return body[:200].decode("utf-8", "replace")
