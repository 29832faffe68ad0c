"""Answer like a model without computing: its metadata, and zeros in its outputs' shapes."""

import json
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from loadtest.metadata import DATATYPES, ModelMetadata, Tensor
from loadtest.payload import VARYING_LENGTH

ECHO = ModelMetadata(
    name="null",
    inputs=(Tensor(name="input", datatype="FP32", shape=(-1, 4)),),
    outputs=(Tensor(name="output", datatype="FP32", shape=(-1, 4)),),
)


@dataclass(frozen=True)
class NullModel:
    """Encode the answers of a null server; every name is served."""

    metadata: ModelMetadata = ECHO
    items: int = 1
    """Items that each answer holds."""

    def describe(self, name: str) -> bytes:
        """Return the metadata's JSON under the name asked for."""
        return json.dumps({"platform": "null", "versions": ["1"], **self.metadata.model_dump(), "name": name}).encode()

    def infer(self, name: str, queue_ns: int, execution_ns: int) -> tuple[bytes, bytes]:
        """Return the JSON part and the binary part of an answer."""
        head = '{"model_name":%s,"parameters":{"arm":%s,"batch_size":%d,"queue_ns":%d,"execution_ns":%d},"outputs":%s}'
        quoted = json.dumps(name)
        return (head % (quoted, quoted, self.items, queue_ns, execution_ns, self._outputs)).encode(), self.zeros

    @cached_property
    def zeros(self) -> bytes:
        """Return the outputs' bytes."""
        return b"".join(bytes(size(t, self.items)) for t in self.metadata.outputs)

    @cached_property
    def _outputs(self) -> str:
        return json.dumps(
            [
                {
                    "name": t.name,
                    "datatype": t.datatype,
                    "shape": t.concrete(self.items, VARYING_LENGTH),
                    "parameters": {"binary_data_size": size(t, self.items)},
                }
                for t in self.metadata.outputs
            ]
        )


def size(tensor: Tensor, items: int) -> int:
    """Return the bytes of a tensor of zeros; a BYTES element is an empty text behind its 4-byte length."""
    width = 4 if tensor.datatype == "BYTES" else np.dtype(DATATYPES[tensor.datatype]).itemsize
    return width * int(np.prod(tensor.concrete(items, VARYING_LENGTH)))
