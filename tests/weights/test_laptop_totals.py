"""The summary of a laptop's own effect for its owner."""

import io
from pathlib import Path

from rich.console import Console

from Daddy.core.atomic_files import write_atomic
from Daddy.weights import laptop_attachments
from Daddy.weights.laptop.laptop_totals import (
    LaptopTotals,
    add_to_totals,
    peers_with_totals,
    summarise_effect,
)
from Daddy.weights.status import render_status
from Daddy.weights.store.weight_records import AttachmentReceipt, Receipt
from Daddy.weights.weights_status_record import report_laptop

OWN = "0a" * 4


def receipt(number: int, share: float, *, accepted: bool = True) -> Receipt:
    return Receipt("anna", OWN, number, accepted, number, share, "", "")


def answered(number: int, *, accepted: bool) -> AttachmentReceipt:
    return AttachmentReceipt("anna", OWN, number, "0" * 64, accepted, "")


def laptop(root: Path) -> Path:
    box = root / "receipts" / "anna"
    write_atomic(box / f"{OWN}-000001.json", receipt(1, 0.1).to_json_bytes())
    write_atomic(box / f"{OWN}-000002.json", receipt(2, 0.05).to_json_bytes())
    write_atomic(box / f"{OWN}-000003.json", receipt(3, 0.0, accepted=False).to_json_bytes())
    for number in (1, 2, 3):
        entry = answered(number, accepted=number != 3)
        write_atomic(box / f"claim-{OWN}-{number:06d}.json", entry.to_json_bytes())
    add_to_totals(root, "anna", LaptopTotals(1_000, 3))
    add_to_totals(root, "anna", LaptopTotals(500, 1))
    return root


def test_visits_add_up_and_only_receipts_say_what_counted(tmp_path: Path) -> None:
    effect = summarise_effect(laptop(tmp_path), "anna")
    assert (effect.steps, effect.visits) == (1_500, 2)
    assert (effect.accepted, effect.moved) == (2, 0.15)
    milestones = (effect.milestones, effect.milestones_accepted, effect.milestones_refused)
    assert milestones == (4, 2, 1)
    assert peers_with_totals(tmp_path) == ["anna"]
    assert effect.describe() == (
        "1,500 steps in 2 visits, 2 contributions counted (together 15% of a version), "
        "4 milestones handed in (2 kept, 1 refused)"
    )


def test_a_damaged_total_begins_anew(tmp_path: Path) -> None:
    laptop(tmp_path)
    (tmp_path / "effect" / "anna.json").write_bytes(b"{")
    assert summarise_effect(tmp_path, "anna").steps == 0
    assert add_to_totals(tmp_path, "anna", LaptopTotals(7)).steps == 7


def test_the_status_screen_shows_it(tmp_path: Path) -> None:
    laptop(tmp_path)
    laptop_attachments.queue_attachment(tmp_path, "anna", OWN, 4, b"x")
    report = report_laptop(tmp_path, 0.0)
    stream = io.StringIO()
    Console(file=stream, width=200).print(render_status(report, 0.0))
    assert "anna did" in stream.getvalue()
    assert summarise_effect(tmp_path, "anna").describe() in stream.getvalue()
