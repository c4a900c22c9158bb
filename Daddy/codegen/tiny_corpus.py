"""Pure. Makes right and wrong solutions of the tasks that ship, to warm up the tiny model.

Each solution takes one of several pieces of code at some places. The first piece of a place is
right; a solution is right where all pieces are, or where its errors happen not to matter.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from random import Random

EASY, HARD = 0.9, 0.4
"""Share of the right piece: at a hard place another piece is more probable, so that the most
probable solution is wrong, and about one in ten is right."""
_OTHER = 0.1
"""Share of solutions of another kind, all wrong."""

Place = str | tuple[float, tuple[str, ...]]
_SOLUTIONS: Mapping[str, Sequence[Place]] = {
    "sort_numbers": (
        "    a = list(xs)\n    for i in range(",
        (EASY, ("1, len(a)", "1, len(a) - 1", "2, len(a)")),
        "):\n        j = i\n        while j > ",
        (EASY, ("0", "1")),
        " and a[j - 1] ",
        (HARD, (">", "<")),
        " a[j]:\n            a[j - 1], a[j] = ",
        (EASY, ("a[j], a[j - 1]", "a[j - 1], a[j]")),
        "\n            j ",
        (EASY, ("-= 1", "-= 2", "+= 1")),
        "\n    return ",
        (HARD, ("a", "xs")),
        "\n",
    ),
    "max_subarray_sum": (
        "    best = ",
        (EASY, ("xs[0]", "0", "1")),
        "\n    here = ",
        (EASY, ("xs[0]", "0", "best + 1")),
        "\n    for x in ",
        (EASY, ("xs[1:]", "xs", "xs[2:]")),
        ":\n        here = ",
        (HARD, ("max(x, here + x)", "here + x")),
        "\n        best = ",
        (HARD, ("max(best, here)", "here")),
        "\n    return ",
        (EASY, ("best", "here")),
        "\n",
    ),
}
_OTHERS = {
    "sort_numbers": ("    return xs\n", "    return sorted(xs)\n", "    return list(xs)\n"),
    "max_subarray_sum": ("    return max(xs)\n", "    return sum(xs)\n", "    return xs\n"),
}


def make_corpus(prompts: Mapping[str, str], draw: "Random", count: int) -> list[tuple[str, str]]:
    """Return pairs of prompt and solution; `prompts` maps names of tasks to their prompts."""
    names = [draw.choice(sorted(_SOLUTIONS)) for _ in range(count)]
    return [(prompts.get(name, f"def {name}(xs):\n"), _solution(name, draw)) for name in names]


def _solution(name: str, draw: "Random") -> str:
    if draw.random() < _OTHER:
        return draw.choice(_OTHERS[name])
    return "".join(
        place if isinstance(place, str) else _piece(place, draw) for place in _SOLUTIONS[name]
    )


def _piece(place: tuple[float, tuple[str, ...]], draw: "Random") -> str:
    share, (right, *wrong) = place
    return right if draw.random() < share else draw.choice(wrong)
