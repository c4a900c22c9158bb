"""Settings of the copy that is kept where no purge comes."""

from __future__ import annotations

from pydantic import Field

from Daddy.core.section import Section


class Mirror(Section):
    """The copy in the home directory that a purged run is restored from."""

    minutes: float = Field(10.0, ge=0, description="time between two looks; 0: no copy")
    folder: str = Field(
        "", description="folder of the copies of all runs; empty: ~/.local/share/daddy/mirrors"
    )
    megabytes: int = Field(
        256, ge=1, description="most a run's copy takes; the archive's share is what weights leave"
    )
