"""Small archive states for tests of the folder."""

from Daddy.pokemon.archive.state_format import Compatibility, Provenance

KIN = Compatibility("f" * 40, "2.7.0")


def provenance(*held: str, step: int = 1, parent: str = "") -> Provenance:
    """Make the provenance of a state with these milestones."""
    kin = (KIN.rom_sha1, KIN.pyboy)
    return Provenance(tuple(sorted(held)), parent, "played", 0, step, 7, "", *kin)
