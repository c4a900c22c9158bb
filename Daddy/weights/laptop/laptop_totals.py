"""Adapter for a laptop's own totals, and the summary of its effect on the run. No torch.

Steps and milestones are added up in ``effect/<peer>.json`` at the end of each session ("visit").
The contributions that counted are taken from receipts, which only the run writes.
"""

from dataclasses import dataclass
from pathlib import Path

from Daddy.core.atomic_files import write_atomic
from Daddy.core.name_validation import check_peer
from Daddy.weights.laptop.pulled_folder import read_receipts
from Daddy.weights.laptop_attachments import read_attachment_receipts, read_each
from Daddy.weights.store.weight_records import JsonRecord


@dataclass(frozen=True, slots=True)
class LaptopTotals(JsonRecord):
    """Environment steps, milestones handed in and sessions ("visits"), of one or of all."""

    steps: int = 0
    milestones: int = 0
    visits: int = 0


@dataclass(frozen=True, slots=True)
class LaptopEffect:
    """A laptop's totals and results; ``moved`` adds up shares: 1.0 is one version's movement."""

    peer: str
    visits: int
    steps: int
    accepted: int
    moved: float
    milestones: int
    milestones_accepted: int
    milestones_refused: int

    def describe(self) -> str:
        """Return one line for the laptop's owner."""
        text = f"{self.steps:,} steps in {self.visits} visits"
        text += f", {self.accepted} contributions counted"
        if self.accepted:
            text += f" (together {self.moved:.0%} of a version)"
        if self.milestones:
            text += f", {self.milestones} milestones handed in "
            text += f"({self.milestones_accepted} kept, {self.milestones_refused} refused)"
        return text


def add_to_totals(pulled_dir: Path, peer: str, new: LaptopTotals) -> LaptopTotals:
    """Add a session to the totals of ``peer``; return them. Raise OSError on a full disk."""
    old = read_totals(pulled_dir, peer)
    total = LaptopTotals(old.steps + new.steps, old.milestones + new.milestones, old.visits + 1)
    write_atomic(pulled_dir / "effect" / f"{peer}.json", total.to_json_bytes())
    return total


def read_totals(pulled_dir: Path, peer: str) -> LaptopTotals:
    """Return the totals so far; zeros where there are none that can be read."""
    records = read_each(LaptopTotals, pulled_dir / "effect", f"{check_peer(peer)}.json")
    return records[0] if records else LaptopTotals()


def summarise_effect(pulled_dir: Path, peer: str) -> LaptopEffect:
    """Read the totals and receipts of ``peer``."""
    totals = read_totals(pulled_dir, peer)
    accepted = [receipt for receipt in read_receipts(pulled_dir, peer) if receipt.accepted]
    milestones = read_attachment_receipts(pulled_dir, peer)
    return LaptopEffect(
        peer=peer,
        visits=totals.visits,
        steps=totals.steps,
        milestones=totals.milestones,
        accepted=len(accepted),
        moved=round(sum(receipt.share for receipt in accepted), 4),
        milestones_accepted=sum(receipt.accepted for receipt in milestones),
        milestones_refused=sum(not receipt.accepted for receipt in milestones),
    )


def peers_with_totals(pulled_dir: Path) -> list[str]:
    """Return peers that ever ended a session here."""
    return sorted(path.stem for path in (pulled_dir / "effect").glob("*.json"))
