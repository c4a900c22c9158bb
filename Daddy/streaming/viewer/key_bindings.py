"""Pure. Maps a key and the current view to the next view; ``TABLE`` is also the help's text."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import NamedTuple

from Daddy.streaming.protocol.messages import MAX_PINS, MAX_TOP_K
from Daddy.streaming.viewer.draw_list import THEMES

TOUR_S = 20.0
"""Seconds for which the tour shows each agent."""


class WindowAction(Enum):
    """Lists the actions of keys that the window has to carry out."""

    LEAVE = "leave"
    SHOT = "picture of the window"
    CLIP = "the last seconds as a film"
    COPY = "the line to copy"
    RECORD = "a film from here on"
    SAVE = "the film until here"


class Overlay(Enum):
    """Lists the tables that may cover the panels."""

    NONE = ""
    HELP = "keys"
    SCORE = "score"
    FIGURES = "figures"


@dataclass(frozen=True, slots=True)
class ViewOptions:
    """Holds the person's choices; agents are named as on screen: ``slot-0/3``."""

    top_k: int
    theme: int = 0
    chosen: str = ""
    full: bool = False
    overlay: Overlay = Overlay.NONE
    maps: bool = True
    """Set to show maps and the return curve below the panels if there is room."""
    paused: bool = False
    recording: bool = False
    leaving: bool = False
    pins: tuple[str, ...] = ()
    touring: str = ""
    tour_until: float = 0.0

    @property
    def requested_agents(self) -> tuple[str, ...]:
        """Agents to show at any rank, the tour's agent first."""
        tour = (self.touring,) if self.touring else ()
        return (*tour, *(name for name in self.pins if name != self.touring))[:MAX_PINS]


class KeyResult(NamedTuple):
    """Holds a key's result: the next view, a sentence for the header, an action of the window."""

    view: ViewOptions
    toast: str = ""
    action: WindowAction | None = None


ShownAgents = Sequence[str]
"""Names of the agents in the panels, by place."""


class KeyBinding(NamedTuple):
    """Describes a row of the table: keys, their label and text in the help, and their effect."""

    names: tuple[str, ...]
    label: str
    help: str
    effect: WindowAction | Overlay | Callable[[ViewOptions, ShownAgents, str], KeyResult]


def apply_key(view: ViewOptions, key: str, shown: ShownAgents) -> KeyResult:
    """Return the result of ``key`` (pygame's name); ``shown``: agents on screen."""
    effect = next((binding.effect for binding in TABLE if key in binding.names), None)
    if isinstance(effect, Overlay):
        new = Overlay.NONE if view.overlay is effect else effect
        result = KeyResult(replace(view, overlay=new))
    elif isinstance(effect, WindowAction) or effect is None:
        result = KeyResult(view, action=effect)
    else:
        result = effect(view, shown, key)
    return result if key == "escape" else result._replace(view=replace(result.view, leaving=False))


def focused_agent(view: ViewOptions, shown: ShownAgents) -> str:
    """Return the agent that keys apply to: the chosen one, or the first on screen."""
    if view.chosen in shown:
        return view.chosen
    return shown[0] if shown else ""


def click_panel(view: ViewOptions, name: str) -> ViewOptions:
    """Choose the clicked panel; a click on the chosen panel fills the window or undoes that."""
    return replace(view, chosen=name, full=view.chosen == name and not view.full)


def advance_tour(view: ViewOptions, agents: Sequence[str], now: float) -> ViewOptions:
    """Move the tour to the next of all ``agents`` when the present agent's time is over."""
    if not view.touring or view.paused or not agents or now < view.tour_until:
        return view
    after = agents.index(view.touring) + 1 if view.touring in agents else 0
    name = agents[after % len(agents)]
    return replace(view, touring=name, chosen=name, tour_until=now + TOUR_S)


def _choose(view: ViewOptions, shown: ShownAgents, key: str) -> KeyResult:
    place = int(key) - 1
    if place >= len(shown):
        return KeyResult(view, f"there is no panel {key}")
    return KeyResult(replace(view, chosen=shown[place]))


def _fill(view: ViewOptions, shown: ShownAgents, key: str) -> KeyResult:
    if key == "g":
        return KeyResult(replace(view, full=False, overlay=Overlay.NONE))
    name = focused_agent(view, shown)
    return KeyResult(replace(view, chosen=name, full=bool(name)))


def _back(view: ViewOptions, _: ShownAgents, __: str) -> KeyResult:
    if view.full or view.overlay is not Overlay.NONE:
        full = view.full and view.overlay is not Overlay.NONE
        return KeyResult(replace(view, overlay=Overlay.NONE, full=full, leaving=False))
    if view.leaving:
        return KeyResult(view, action=WindowAction.LEAVE)
    return KeyResult(replace(view, leaving=True), "Esc again closes the window; training goes on")


def _agents(view: ViewOptions, _: ShownAgents, key: str) -> KeyResult:
    top_k = max(1, min(MAX_TOP_K, view.top_k + (-1 if key == "-" else 1)))
    return KeyResult(replace(view, top_k=top_k), f"the best {top_k}")


def _pin(view: ViewOptions, shown: ShownAgents, _: str) -> KeyResult:
    name = focused_agent(view, shown)
    if not name:
        return KeyResult(view, "no agent is here to be pinned")
    if name in view.pins:
        rest = tuple(pin for pin in view.pins if pin != name)
        return KeyResult(replace(view, pins=rest), f"{name} may be replaced again")
    if len(view.pins) >= MAX_PINS:
        return KeyResult(view, f"{MAX_PINS} are pinned, which is the most")
    return KeyResult(replace(view, pins=(*view.pins, name)), f"{name} is pinned and stays")


def _tour(view: ViewOptions, shown: ShownAgents, _: str) -> KeyResult:
    if view.touring:
        return KeyResult(replace(view, touring=""), "the tour is over")
    name = focused_agent(view, shown)
    if not name:
        return KeyResult(view, "no agent is here to be visited")
    toast = f"a tour of all agents, {TOUR_S:.0f} s each"
    return KeyResult(replace(view, touring=name, tour_until=0.0), toast)


def _pause(view: ViewOptions, _: ShownAgents, __: str) -> KeyResult:
    toast = "" if view.paused else "paused: only this window, training goes on"
    return KeyResult(replace(view, paused=not view.paused), toast)


def _maps(view: ViewOptions, _: ShownAgents, __: str) -> KeyResult:
    toast = "no maps" if view.maps else "maps and returns"
    return KeyResult(replace(view, maps=not view.maps), toast)


def _palette(view: ViewOptions, _: ShownAgents, __: str) -> KeyResult:
    theme = (view.theme + 1) % len(THEMES)
    return KeyResult(replace(view, theme=theme), f"palette: {THEMES[theme].name}")


def _record(view: ViewOptions, shown: ShownAgents, _: str) -> KeyResult:
    if view.recording:
        return KeyResult(replace(view, recording=False), "", WindowAction.SAVE)
    name = focused_agent(view, shown)
    if not name:
        return KeyResult(view, "no agent is here to be recorded")
    view = replace(view, recording=True, chosen=name)
    return KeyResult(view, f"recording {name}; R ends it", WindowAction.RECORD)


TABLE = (
    KeyBinding(tuple("12345678"), "1-8", "choose a panel (or click)", _choose),
    KeyBinding(("return", "g"), "Enter G", "fill the window; all panels", _fill),
    KeyBinding(("escape",), "Esc", "back; twice: close", _back),
    KeyBinding(("+", "=", "-"), "+ -", "more or fewer agents", _agents),
    KeyBinding(("p",), "P", "pin: this agent stays, or not", _pin),
    KeyBinding(("t",), "T", "tour of all agents, or not", _tour),
    KeyBinding(("space",), "Space", "pause this window, or go on", _pause),
    KeyBinding(("s",), "S", "parts of the score", Overlay.SCORE),
    KeyBinding(("f",), "F", "figures of the stream", Overlay.FIGURES),
    KeyBinding(("m",), "M", "maps and returns, or none", _maps),
    KeyBinding(("v",), "V", "next palette", _palette),
    KeyBinding(("b",), "B", "keep the last 30 s as a GIF", WindowAction.CLIP),
    KeyBinding(("r",), "R", "record a film, and end it", _record),
    KeyBinding(("f12",), "F12", "keep a picture of the window", WindowAction.SHOT),
    KeyBinding(("c",), "C", "copy the ssh line", WindowAction.COPY),
    KeyBinding(("h", "?"), "H ?", "these keys", Overlay.HELP),
    KeyBinding(("q",), "Q", "close; training goes on", WindowAction.LEAVE),
)

HINT = "H keys   C copy the ssh line   +/- agents   Q quit"
