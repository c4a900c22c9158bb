"""Pure. Keys: a key and the present view become the next view. Help is drawn from ``TABLE``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import NamedTuple

from Daddy.streaming.protocol.messages import MAX_PINS, MAX_TOP_K
from Daddy.streaming.viewer.draw_list import THEMES

TOUR_S = 20.0
"""For so long the tour stays with an agent."""


class Act(Enum):
    """An act that reaches out of the window."""

    LEAVE = "leave"
    SHOT = "picture of the window"
    CLIP = "the last seconds as a film"
    COPY = "the line to copy"
    RECORD = "a film from here on"
    SAVE = "the film until here"


class Sheet(Enum):
    """A sheet over the panels."""

    NONE = ""
    HELP = "keys"
    SCORE = "score"
    FIGURES = "figures"


@dataclass(frozen=True, slots=True)
class View:
    """The person's choices; agents are named as on screen: ``slot-0/3``."""

    top_k: int
    theme: int = 0
    chosen: str = ""
    full: bool = False
    sheet: Sheet = Sheet.NONE
    maps: bool = True
    """Maps and the run's course stand below the panels where there is room."""
    paused: bool = False
    recording: bool = False
    leaving: bool = False
    pins: tuple[str, ...] = ()
    touring: str = ""
    tour_until: float = 0.0

    @property
    def wanted(self) -> tuple[str, ...]:
        """Agents to show whatever their rank: the tour's first."""
        tour = (self.touring,) if self.touring else ()
        return (*tour, *(one for one in self.pins if one != self.touring))[:MAX_PINS]


class Pressed(NamedTuple):
    """The outcome of a key: the next view, a word about it, and an act outside."""

    view: View
    toast: str = ""
    act: Act | None = None


Shown = Sequence[str]
"""Names of the agents in the panels, by place."""


class Key(NamedTuple):
    """A line of the table: names of keys, their label in the help, and their effect."""

    names: tuple[str, ...]
    label: str
    what: str
    do: Act | Sheet | Callable[[View, Shown, str], Pressed]


def press(view: View, key: str, shown: Shown) -> Pressed:
    """``key`` as pygame names it, ``shown`` the agents on screen. Keys of no meaning do nothing."""
    do = next((one.do for one in TABLE if key in one.names), None)
    if isinstance(do, Sheet):
        done = Pressed(replace(view, sheet=Sheet.NONE if view.sheet is do else do))
    elif isinstance(do, Act) or do is None:
        done = Pressed(view, act=do)
    else:
        done = do(view, shown, key)
    return done if key == "escape" else done._replace(view=replace(done.view, leaving=False))


def focus(view: View, shown: Shown) -> str:
    """The agent that keys are about: the chosen one, or the first on screen."""
    if view.chosen in shown:
        return view.chosen
    return shown[0] if shown else ""


def choose(view: View, name: str) -> View:
    """A click on a panel: the first chooses it, the second lets it fill the window, or not."""
    return replace(view, chosen=name, full=view.chosen == name and not view.full)


def tick(view: View, agents: Sequence[str], now: float) -> View:
    """The tour goes on to the next of all ``agents`` when it is time."""
    if not view.touring or view.paused or not agents or now < view.tour_until:
        return view
    after = agents.index(view.touring) + 1 if view.touring in agents else 0
    guest = agents[after % len(agents)]
    return replace(view, touring=guest, chosen=guest, tour_until=now + TOUR_S)


def _choose(view: View, shown: Shown, key: str) -> Pressed:
    place = int(key) - 1
    if place >= len(shown):
        return Pressed(view, f"there is no panel {key}")
    return Pressed(replace(view, chosen=shown[place]))


def _fill(view: View, shown: Shown, key: str) -> Pressed:
    if key == "g":
        return Pressed(replace(view, full=False, sheet=Sheet.NONE))
    name = focus(view, shown)
    return Pressed(replace(view, chosen=name, full=bool(name)))


def _back(view: View, _: Shown, __: str) -> Pressed:
    if view.full or view.sheet is not Sheet.NONE:
        sheet = view.sheet is not Sheet.NONE
        return Pressed(replace(view, sheet=Sheet.NONE, full=view.full and sheet, leaving=False))
    if view.leaving:
        return Pressed(view, act=Act.LEAVE)
    return Pressed(replace(view, leaving=True), "Esc again closes the window; training goes on")


def _agents(view: View, _: Shown, key: str) -> Pressed:
    top_k = max(1, min(MAX_TOP_K, view.top_k + (-1 if key == "-" else 1)))
    return Pressed(replace(view, top_k=top_k), f"the best {top_k}")


def _pin(view: View, shown: Shown, _: str) -> Pressed:
    name = focus(view, shown)
    if not name:
        return Pressed(view, "nobody is here to be pinned")
    if name in view.pins:
        rest = tuple(one for one in view.pins if one != name)
        return Pressed(replace(view, pins=rest), f"{name} may be replaced again")
    if len(view.pins) >= MAX_PINS:
        return Pressed(view, f"{MAX_PINS} are pinned, which is all that can be")
    return Pressed(replace(view, pins=(*view.pins, name)), f"{name} is pinned and stays")


def _tour(view: View, shown: Shown, _: str) -> Pressed:
    if view.touring:
        return Pressed(replace(view, touring=""), "the tour is over")
    guest = focus(view, shown)
    if not guest:
        return Pressed(view, "nobody is here to be visited")
    toast = f"a tour of all agents, {TOUR_S:.0f} s each"
    return Pressed(replace(view, touring=guest, tour_until=0.0), toast)


def _pause(view: View, _: Shown, __: str) -> Pressed:
    toast = "" if view.paused else "paused: only this window, training goes on"
    return Pressed(replace(view, paused=not view.paused), toast)


def _maps(view: View, _: Shown, __: str) -> Pressed:
    return Pressed(replace(view, maps=not view.maps), "no maps" if view.maps else "maps and course")


def _palette(view: View, _: Shown, __: str) -> Pressed:
    theme = (view.theme + 1) % len(THEMES)
    return Pressed(replace(view, theme=theme), f"palette: {THEMES[theme].name}")


def _record(view: View, shown: Shown, _: str) -> Pressed:
    if view.recording:
        return Pressed(replace(view, recording=False), "", Act.SAVE)
    name = focus(view, shown)
    if not name:
        return Pressed(view, "nobody is here to be recorded")
    view = replace(view, recording=True, chosen=name)
    return Pressed(view, f"recording {name}; R ends it", Act.RECORD)


TABLE = (
    Key(tuple("12345678"), "1-8", "choose a panel (or click)", _choose),
    Key(("return", "g"), "Enter G", "fill the window; all panels", _fill),
    Key(("escape",), "Esc", "back; twice: close", _back),
    Key(("+", "=", "-"), "+ -", "more or fewer agents", _agents),
    Key(("p",), "P", "pin: this agent stays, or not", _pin),
    Key(("t",), "T", "tour of all agents, or not", _tour),
    Key(("space",), "Space", "pause this window, or go on", _pause),
    Key(("s",), "S", "what the score is made of", Sheet.SCORE),
    Key(("f",), "F", "figures of the stream", Sheet.FIGURES),
    Key(("m",), "M", "maps and course, or none", _maps),
    Key(("v",), "V", "next palette", _palette),
    Key(("b",), "B", "keep the last 30 s as a GIF", Act.CLIP),
    Key(("r",), "R", "record a film, and end it", _record),
    Key(("f12",), "F12", "keep a picture of the window", Act.SHOT),
    Key(("c",), "C", "copy the ssh line", Act.COPY),
    Key(("h", "?"), "H ?", "these keys", Sheet.HELP),
    Key(("q",), "Q", "close; training goes on", Act.LEAVE),
)

HINT = "H keys   C copy the ssh line   +/- agents   Q quit"
