"""Picture of the bench `stream`: bytes a picture beside others, ages on each line."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from scripts.benches._plots import COLOURS, INK, picture

_OURS, _OTHERS = COLOURS[0], "#9aa5b1"
_NAMES = {
    "seed": "public format (JSON, base64 RGB)",
    "png_rgb": "PNG, RGB",
    "png": "PNG, 2 bits",
}
_WHO = {
    "line": "the line alone",
    "direct": "ours",
    "spool": "ours, by way of the spool",
}
_COLOURS = {"line": _OTHERS, "direct": _OURS, "spool": COLOURS[1]}


def draw(path: Path, found: Mapping[str, Any]) -> None:
    """A panel for each part that was measured; nothing where none of them was."""
    parts = [(_draw_bytes, "peers"), (_draw_ages, "links")]
    shown = [how for how, part in parts if part in found]
    if not shown:
        return
    with picture(path, columns=len(shown)) as panels:
        for how, axes in zip(shown, panels, strict=True):
            how(axes, found)
            axes.tick_params(axis="y", length=0)
            axes.set_axisbelow(True)


def _draw_bytes(axes: Any, found: Mapping[str, Any]) -> None:
    """The smallest below; each bar says its bytes and what a picture takes to encode."""
    ours = found["ours"]
    rows = [
        ("ours, against the last ones", ours["delta"], ours["delta_cpu_us"], _OURS),
        ("ours, whole", ours["key"], ours["key_cpu_us"], _OURS),
    ]
    rows += [
        (_NAMES[name], one["bytes_per_frame"], one["cpu_us_per_frame"], _OTHERS)
        for name, one in found["peers"].items()
        if isinstance(one, Mapping)
    ]
    rows.sort(key=lambda row: row[1], reverse=True)
    for place, (_, size, cpu_us, colour) in enumerate(rows):
        axes.barh(place, size, color=colour, height=0.62)
        axes.text(size * 1.12, place, f"{size:,.0f} B  ·  {cpu_us:,.0f} µs", va="center")
    axes.axvline(found["floor_xz"], color=INK, linestyle="--", linewidth=0.8)
    axes.text(found["floor_xz"] * 1.08, -0.62, "xz -9e of everything at once", fontsize=8)
    axes.set_yticks(range(len(rows)), [row[0] for row in rows])
    axes.set_ylim(len(rows) - 0.5, -0.9)
    axes.set_xscale("log")
    axes.set_xlim(10, rows[0][1] * 60)
    axes.set(title="Bytes and processor time of one picture", xlabel="bytes (log scale)")


def _draw_ages(axes: Any, found: Mapping[str, Any]) -> None:
    """Median to 95 %: each line a group, each sender a stroke; the bound where one is asked."""
    places, names = list[float](), list[str]()
    for group, (line, rows) in enumerate(found["links"]["lines"].items()):
        senders = [who for who in _WHO if who in rows and rows[who]["age_p95_s"] is not None]
        for index, who in enumerate(senders):
            one, place = rows[who], group + (index - 1) * 0.25
            span = (one["age_p50_s"], one["age_p95_s"])
            axes.plot(span, (place, place), color=_COLOURS[who], linewidth=4)
            axes.plot(span[0], place, "o", color=_COLOURS[who], markersize=6)
            rate = f"{one['frames_per_s_and_agent']:.2g} pictures/s"
            words = f"{_WHO[who]}, {rate}"
            paper = {"facecolor": "white", "edgecolor": "none", "pad": 1}
            axes.text(span[1] * 1.2, place, words, va="center", fontsize=8, bbox=paper)
        if rows["bound_asked"]:
            bound = rows["bound_s"]
            axes.plot((bound, bound), (group - 0.38, group + 0.38), color=INK, linestyle=":")
        places.append(group)
        names.append(line.replace("s ", "s\n"))
    axes.set_yticks(places, names)
    axes.set_ylim(len(names) - 0.5, -0.6)
    axes.set_xscale("log")
    axes.set_xlim(0.01, 1000)
    axes.set(
        title="Age of a picture as it is shown, over ssh -R",
        xlabel="seconds (log scale): median, and to the right 95 %; dotted: the bound",
    )
