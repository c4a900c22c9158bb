"""Compares the stream's figures with its targets T1 to T14: figure, bound, met or not.

Figures of the bench's other parts are taken from them; a figure that was not measured in this run
is marked as such, and is neither met nor missed. ``scripts/soak watching`` measures T11 (memory),
``scripts/soak stream`` T12 (spoilt messages).
"""

from collections.abc import Mapping, Sequence
from typing import Any

from scripts.benches import _stream_costs as costs
from scripts.benches import _stream_spool as spool
from scripts.benches import _stream_viewing as viewing
from scripts.benches._stream_links import FRESH_S, IN_FLIGHT, JOB

DELTA, KEY, OF_SEED, OF_FLOOR = 300, 700, 300, 6
WANTED_US, NOT_WANTED_US, SELECTOR_US = 10.0, 0.5, 1.0
FIRST_S, IDLE, WATCHING, SPOOL_S = 1.0, 0.01, 0.15, 3.0
DWELL_S, KEPT, RATE = 25.0, 0.93, 0.99
_MISSING = "not in this run"


def measure(pictures: Sequence[bytes], quick: bool) -> dict[str, Any]:
    """Measure the figures that the bench's other parts do not measure."""
    corpus = b"".join(pictures)
    return {
        "costs": costs.measure(quick),
        "first": viewing.first_picture(corpus, quick),
        "viewer": viewing.viewer_cpu(pictures, quick),
        "spool": spool.measure(corpus, quick),
    }


def table(results: Mapping[str, Any]) -> dict[str, object]:
    """Return one row per target."""
    return {
        **_of_training(results),
        **_of_bytes(results),
        **_of_links(results.get("links")),
        **_of_viewing(results.get("measured", {})),
        **_of_choice(results),
    }


def _row(what: str, figure: float | None, bound: float, *, least: bool = False) -> dict[str, Any]:
    sign = ">=" if least else "<="
    if figure is None:
        return {"what": what, "figure": _MISSING, "bound": f"{sign} {bound:g}", "met": None}
    met = figure >= bound if least else figure <= bound
    return {"what": what, "figure": figure, "bound": f"{sign} {bound:g}", "met": bool(met)}


def _of_training(results: Mapping[str, Any]) -> dict[str, object]:
    ratios = [case["ratio"] for case in results.get("training", {}).values()]
    hook = results.get("measured", {}).get("costs", {})
    wanted, idle = hook.get("wanted", {}), hook.get("not_wanted", {})
    files = None if not hook else max(wanted["files_per_step"], idle["files_per_step"])
    return {
        "T1": _row("training on / off, worst case", min(ratios, default=None), RATE, least=True),
        "T2": _row("us a step, wanted", wanted.get("total_us"), WANTED_US),
        "T2 idle": _row("us a step, not wanted", idle.get("total_us"), NOT_WANTED_US),
        "T3": _row("files opened by the training thread", files, 0),
        "T3 time": _row("us a step for the choice (reports)", idle.get("of_it_reports_us"),
                        SELECTOR_US),
    }  # fmt: skip


def _of_bytes(results: Mapping[str, Any]) -> dict[str, object]:
    ours, ratios = results.get("ours", {}), results.get("ratios", {})
    return {
        "T4 delta": _row("bytes a delta", ours.get("delta"), DELTA),
        "T4 key": _row("bytes a whole picture", ours.get("key"), KEY),
        "T4 seed": _row("times the public format's", ratios.get("seed_to_ours"), OF_SEED,
                        least=True),
        "T5": _row("times xz -9e", ratios.get("ours_to_floor"), OF_FLOOR),
    }  # fmt: skip


def _of_links(links: Mapping[str, Any] | None) -> dict[str, object]:
    lines = links["lines"] if links else {}
    rows = {
        f"T6 {name}": _row("s, age p95 at display", line[JOB]["age_p95_s"], line["bound_s"])
        for name, line in lines.items()
        if line["bound_asked"]
    }
    frozen = links["frozen"]["line"] if links else {}
    return {
        **(rows or {"T6": {"what": "s, age p95 at display", "figure": _MISSING, "met": None}}),
        "T7": _row("bytes in flight, viewer frozen", frozen.get("in_flight_bytes"), IN_FLIGHT),
        "T8": _row("s until fresh after 6 s frozen", frozen.get("fresh_after_s"), FRESH_S),
    }


def _of_viewing(measured: Mapping[str, Any]) -> dict[str, object]:
    viewer = measured.get("viewer", {})
    spool_s = [delay["age_p95_s"] for delay in measured.get("spool", {}).values()]
    first_s = measured.get("first", {}).get("worst_s")
    return {
        "T9": _row("s to the first picture, worst", first_s, FIRST_S),
        "T10 idle": _row("of a core, waiting", viewer.get("idle"), IDLE),
        "T10": _row("of a core, 2 x 30 fps", viewer.get("2x30"), WATCHING),
        "T14": _row("s, age p95 by the spool, worst", max(spool_s, default=None), SPOOL_S),
    }


def _of_choice(results: Mapping[str, Any]) -> dict[str, object]:
    choice = results.get("selection", {}).get("ours", {})
    return {
        "T13": _row("s, median time on screen", choice.get("median_dwell_s"), DWELL_S, least=True),
        "T13 kept": _row("of the best score", choice.get("of_best_score"), KEPT, least=True),
    }
