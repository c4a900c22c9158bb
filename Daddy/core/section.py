"""What all sections of the settings have in common."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    """Base of all sections: unknown keys are errors, values are frozen and checked."""

    model_config = ConfigDict(extra="forbid", frozen=True)
