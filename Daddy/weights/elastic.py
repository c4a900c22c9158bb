"""The rule "elastic": jobs keep weights of their own; they and the shared ones draw one another.

Elastic averaging (Zhang et al., 2015, EASGD) through files. An offer is the whole distance of a
job's weights from its base. What a version took of it, share x clip, moves the shared weights
towards the job; the job gives back just as much when it sees that version. So the sum of shared
and own weights is what it was before, whoever is late, and a share that is not taken costs nobody
anything. Jobs stay apart, which is worth something where they should look in different places.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from Daddy.weights.fate import Fate
from Daddy.weights.polyak import StateDict, add, copy, difference, give, is_finite
from Daddy.weights.progress import Adoption, Base, Key, Progress, Stride, whole
from Daddy.weights.weighting import Offer


def drawn(offers: Sequence[Offer], shares: Sequence[float], alpha: float) -> tuple[float, ...]:
    """How far each offer draws the shared weights: ``alpha`` of a job's share; a laptop's as it is.

    Every offer of a peer holds its whole distance, so several in one merge have one share together.
    A laptop goes on from the newest version, and what it offers is progress.
    """
    many = Counter(offer.peer for offer in offers)
    return tuple(
        share if offer.laptop else alpha * share / many[offer.peer]
        for offer, share in zip(offers, shares, strict=True)
    )


def start(rule: str, base: Base, incarnation: str) -> Progress:
    """The book-keeping of a process that begins on ``base`` under ``rule``."""
    if rule != "elastic":
        return Progress.start(base, absolute=rule == "polyak")
    return Elastic(base=base, anchor=base.weights, incarnation=incarnation)


@dataclass(slots=True)
class Elastic(Progress):
    """Book-keeping of one process under "elastic". The anchor is the base and what was held back.

    ``lent`` is what this process, or one before it, has offered and may have to give back.
    """

    incarnation: str = ""
    lent: dict[Key, StateDict] = field(default_factory=dict)

    def to_offer(self, own: StateDict) -> StateDict:
        """The whole distance from the base, without what was given back already but not taken."""
        return difference(own, self.anchor)

    def offered(self, own: StateDict, delta: StateDict, blob: str) -> None:
        """Note that ``delta`` was offered. The distance is still there: the anchor stays."""
        del own
        self.sequence += 1
        self.unmerged[self.sequence], self.blobs[self.sequence] = delta, blob
        self.lent[self.incarnation, self.sequence] = delta

    def rebase(self, base: Base, own: StateDict, fate: Fate, stride: Stride = whole) -> Adoption:
        """Give back what versions up to ``base`` took, as far as ``stride`` allows; see Progress.

        After a refusal for values, where its base was taken back, or with weights that are not
        finite, it takes the version as it is.
        """
        bad = [n for n in fate.refused if self._fault(fate, n) == "values"]
        bad = [n for n in bad if (fate.incarnation, n) in self.lent]
        due = [(delta, fate.moved[key]) for key, delta in self.lent.items() if key in fate.moved]
        if self.held_back is not None:
            due.append((self.held_back, 1.0))
        self._settle(base, fate)
        if fate.fallen or bad or not is_finite(own):
            self.drop_all()
            why = fate.fallen or (self._why(fate, bad[0]) if bad else "own weights are not finite")
            return Adoption(base.version, copy(base.weights), f"took v{base.version}: {why}")
        weights = give(own, base.weights, [one for one, _ in due], [share for _, share in due])
        taken = stride(weights)
        if taken is weights:
            return Adoption(base.version, weights, f"drawn to v{base.version}")
        self.held_back = difference(taken, weights)
        self.anchor = add(base.weights, self.held_back)
        return Adoption(base.version, taken, f"drawn to v{base.version} part of the way")

    def _settle(self, base: Base, fate: Fate) -> None:
        """Stand on ``base``; only what no version has judged is still lent."""
        self.lent = {key: delta for key, delta in self.lent.items() if key not in fate.moved}
        self.unmerged = {n: delta for n, delta in self.unmerged.items() if n > fate.judged}
        self.blobs = {n: self.blobs[n] for n in self.unmerged}
        self.inherited = {key: sha for key, sha in self.inherited.items() if key in self.lent}
        self.base, self.anchor, self.held_back = base, base.weights, None

    def go_on(
        self, old: Base, own: StateDict, fate: Fate, lent: Mapping[Key, StateDict],
        held_back: StateDict | None,
    ) -> Adoption:  # fmt: skip
        """Weights of a successor whose checkpoint, ``own``, stood on ``old``.

        ``lent`` and ``held_back`` are the checkpoint's; self stands on the newest version.
        """
        newest, self.base, self.lent, self.held_back = self.base, old, dict(lent), held_back
        self.anchor = old.weights if held_back is None else add(old.weights, held_back)
        if newest.version == old.version:
            return Adoption(newest.version, own, f"resumed on v{newest.version}")
        found = self.rebase(newest, own, fate)
        return Adoption(
            found.version, found.weights, f"resumed from v{old.version}, {found.reason}"
        )

    def drop_all(self) -> None:
        """Forget everything on top of the base."""
        Progress.drop_all(self)
        self.lent, self.inherited = {}, {}
