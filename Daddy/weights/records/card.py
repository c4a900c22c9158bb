"""Pure: the model card: what a file of weights is, wherever it was copied to.

It stands as JSON in the file's own header, so that it cannot be lost, and as Markdown beside it for
people. The one in the header counts. It states no licence: that is for whoever passes the file on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from Daddy.core.assists import strange
from Daddy.core.errors import WeightsError
from Daddy.core.words import one_line
from Daddy.weights.records.manifest import Written, parse

KEY = "daddy_card"
"""The card's name in the header."""


@dataclass(frozen=True, slots=True)
class Card(Written):
    """Version ``version`` of a run, as a file of its own.

    ``sha256`` is the hash of its tensors as our codec writes them without a card, in ``precision``
    ("float32"; from a laptop "bfloat16"). ``env_steps`` were made in the run, ``steps_before`` in
    the runs it descends from, ``ancestors``, oldest first. ``contributors`` (peer → steps) is empty
    where the exporting machine did not know them. ``averaged`` versions, this one and those before
    it, are the mean that the file holds; a single one has the hash of the run's own blob.
    """

    run: str
    run_id: str
    version: int
    workload: str
    schema: str
    sha256: str
    precision: str
    parameters: int
    env_steps: int
    steps_before: int
    merged_ts: float
    contributors: dict[str, int]
    ancestors: tuple[str, ...] = ()
    assists: tuple[str, ...] = ()
    averaged: int = 1

    @property
    def name(self) -> str:
        """``v57 of demo (1b2803a2664e)``."""
        mean = f"mean of {self.averaged} versions to " if self.averaged > 1 else ""
        return one_line(f"{mean}v{self.version} of {self.run} ({self.run_id})", 120)


def card_in(metadata: Mapping[str, str], name: str) -> Card | None:
    """The card in the header of the file ``name``; None without one, WeightsError if damaged."""
    if KEY not in metadata:
        return None
    return parse(Card, metadata[KEY].encode(errors="replace"), f"the card in {name}")


def refuse_strange_card(card: Card, assists: Iterable[str], name: str) -> None:
    """WeightsError for weights learnt with scripted helps that are not in use here."""
    if foreign := strange(card.assists, assists):
        raise WeightsError(
            f"{name}, {card.name}, was learnt with the assists {foreign}, not in use here",
            f"use the assists {', '.join(card.assists)} too (training.assists, or --assists where "
            "there is one), or take weights that were learnt without",
        )


def to_markdown(card: Card, file: str) -> str:
    """The card for people; ``file`` is the file's name."""
    rows = {
        "workload": f"`{one_line(card.workload)}`",
        "run": one_line(f"{card.run} (`{card.run_id}`), version {card.version}"),
        "values": f"the mean of {card.averaged} versions" if card.averaged > 1 else "as merged",
        "environment steps": _steps(card),
        "assists": _assists(card),
        "descends from": ", then ".join(map(one_line, card.ancestors)) or "no other run",
        "parameters": f"{card.parameters:,}, {one_line(card.precision)}",
        "schema": f"`{card.schema}`",
        "SHA-256 of the tensors": f"`{card.sha256}`",
    }
    table = "\n".join(f"| {name} | {told} |" for name, told in rows.items())
    return f"""# {one_line(card.run)}, version {card.version}

Weights of one policy that the peers below learnt together, as safetensors.
This page says what the header of `{file}` says (`python -m Daddy.weights.model show {file}`).

| | |
| --- | --- |
{table}

## Contributors

{_contributors(card)}

## Use

```bash
python -m Daddy.weights.model import {file} --run-dir runs/another_run
```

Any safetensors reader opens it: names and shapes of the tensors are the policy's own. Not in it:
the optimizer's state, data of a game, and a licence, which is for whoever passes it on to state.
"""


def _steps(card: Card) -> str:
    before = f", after {card.steps_before:,} in earlier runs" if card.steps_before else ""
    return f"{card.env_steps:,}{before}"


def _assists(card: Card) -> str:
    """Scripted helps are part of what was learnt: the card says so in words."""
    if not card.assists:
        return "none: nothing was scripted"
    return f"learnt with {', '.join(card.assists)}: parts of the game were scripted"


def _contributors(card: Card) -> str:
    if not card.contributors:
        return "Not known where it was exported." if card.env_steps else "Nobody yet."
    total = max(1, sum(card.contributors.values()))
    rows = [
        f"| {one_line(peer)} | {steps:,} | {100 * steps / total:.1f} % |"
        for peer, steps in sorted(card.contributors.items(), key=lambda one: (-one[1], one[0]))
    ]
    return "\n".join(["| peer | steps | share |", "| --- | --- | --- |", *rows])
