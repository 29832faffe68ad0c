"""Define the base of every configuration model: frozen, and closed to unknown keys."""

from pydantic import BaseModel, ConfigDict


class Closed(BaseModel):
    """Be immutable and refuse keys that no field declares."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)
