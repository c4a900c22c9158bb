"""Simulates the first minutes of Red: a work RAM that reacts to buttons as public facts describe.

It has menus, names, options, doors, edges, scripts and prompts as in the disassembly, so that tests
can play the routes for which they have no ROM. It cannot prove that these facts are right.
"""

from Daddy.pokemon import ram_map as ram
from Daddy.pokemon import story_order

ROOMS = {38: (8, 8), 37: (8, 8), 0: (18, 20), 40: (12, 10), 12: (36, 20), 1: (36, 40), 42: (8, 8)}
"""Rows and columns of each map."""
DOORS = {
    (38, 1, 7): (37, 1, 7), (37, 1, 7): (38, 1, 7), (0, 5, 5): (37, 7, 2), (0, 11, 12): (40, 11, 5),
    (1, 19, 29): (42, 7, 3), (0, 5, 13): (39, 7, 2), (1, 25, 23): (41, 7, 3),
}  # fmt: skip
"""Doors that lead to (map, row, column) when stepped on."""
MATS = {
    (37, 7, 2): (0, 6, 5), (37, 7, 3): (0, 6, 5),
    (40, 11, 4): (0, 12, 12), (40, 11, 5): (0, 12, 12),
    (42, 7, 3): (1, 20, 29), (42, 7, 4): (1, 20, 29),
}  # fmt: skip
"""Doors that lead on with one more step down."""
EDGES = {(0, "up"): (12, 0), (12, "up"): (1, 10), (1, "down"): (12, -10), (12, "down"): (0, 0)}
"""The map beyond an edge, and the shift of its columns."""
STEPS = {"down": (1, 0), "up": (-1, 0), "left": (0, -1), "right": (0, 1)}
WALLS = {
    (0, 0): {x for x in range(20) if x not in (10, 11)},
    (12, 35): {x for x in range(20) if x not in (10, 11)},
    (12, 20): {x for x in range(20) if x not in (3, 4)},
    (12, 0): {x for x in range(20) if x not in (10, 11)},
    (1, 35): {x for x in range(40) if x not in (20, 21)},
    (40, 3): {6, 7, 8},
    (40, 2): {5},
}
"""Blocked columns by map and row, with the balls and the professor."""
TOP, OPTIONS, NAMES, TEXT, WORLD, FIGHT = "top", "options", "names", "text", "world", "fight"


class PaperRed:
    """Has `press`, `wait` and `ram` as the emulator has."""

    def __init__(self) -> None:
        self._image = bytearray(ram.RAM_SIZE)
        self.mode = "intro"
        self.lines: list[object] = []
        self.named = 0
        self.delay = 0
        self.soon: list[object] = []
        self.rows = [9, 1, 1, 1]
        self._put(ram.OPTIONS, 3)

    def ram(self, blocks: object) -> bytearray:
        return self._image

    def wait(self, frames: int) -> None:
        self._pass(frames)

    def press(self, button: str) -> None:
        if not self.delay:
            getattr(self, f"_in_{self.mode}")(button)
        self._pass(24)

    def _pass(self, frames: int) -> None:
        self.delay = max(0, self.delay - frames)
        if self.soon and self.mode == WORLD and not self.delay:
            self.say(*self.soon)
            self.soon = []
        if self.mode == "fading" and not self.delay:
            self._open_top()

    def _put(self, address: int, *values: int) -> None:
        start = address - ram.RAM_START
        self._image[start : start + len(values)] = bytes(values)

    def _get(self, address: int) -> int:
        return self._image[address - ram.RAM_START]

    def has(self, name: str) -> bool:
        events = int.from_bytes(
            self._image[ram.EVENTS - ram.RAM_START :][: ram.EVENT_BYTES], "little"
        )
        return bool(
            events & story_order.event_mask(tuple(s for s in story_order.STORY if s.name == name))
        )

    def _set(self, *names: str) -> None:
        start = ram.EVENTS - ram.RAM_START
        events = int.from_bytes(self._image[start : start + ram.EVENT_BYTES], "little")
        events |= story_order.event_mask(
            tuple(step for step in story_order.STORY if step.name in names)
        )
        self._image[start : start + ram.EVENT_BYTES] = events.to_bytes(ram.EVENT_BYTES, "little")

    # title, menu, options, names

    def _in_intro(self, button: str) -> None:
        self.mode, self.delay = "title", 60

    def _in_title(self, button: str) -> None:
        if button in ("a", "start"):
            self.mode, self.delay = "fading", 150

    def _in_fading(self, button: str) -> None:
        """Do nothing, as no picture is read."""

    def _menu(self, y: int, x: int, entry: int, last: int) -> None:
        self._put(ram.MENU_Y, y, x, entry)
        self._put(ram.MENU_LAST, last)

    def _open_top(self) -> None:
        self.mode = TOP
        self._menu(2, 1, 0, 1)

    def _move(self, button: str) -> int:
        entry, last = self._get(ram.MENU_ITEM), self._get(ram.MENU_LAST)
        entry = min(last, max(0, entry + (button == "down") - (button == "up")))
        self._put(ram.MENU_ITEM, entry)
        return entry

    def _in_top(self, button: str) -> None:
        entry = self._move(button)
        if button == "b":
            self.mode = "title"
        elif button in ("a", "start") and entry == 1:
            self.mode = OPTIONS
            self._menu(3, self.rows[0], 0, 1)
        elif button in ("a", "start"):
            self.say("hello", "hello", self.offer_name)

    def _in_options(self, button: str) -> None:
        places = [3, 8, 13, 16]
        at = places.index(self._get(ram.MENU_Y))
        if button in ("b", "start"):
            self.mode, self.delay = "fading", 40
            return
        if button in ("up", "down"):
            at = (at + (1 if button == "down" else -1)) % 4
        elif button in ("left", "right") and at == 0:
            speeds = [1, 9, 14]
            to = speeds.index(self.rows[0]) + (1 if button == "right" else -1)
            self.rows[0] = speeds[min(2, max(0, to))]
        elif button in ("left", "right"):
            self.rows[at] ^= 0x0B
        delay = {1: 1, 9: 3, 14: 5}[self.rows[0]]
        self._put(ram.OPTIONS, delay | (self.rows[1] == 10) << 7 | (self.rows[2] == 10) << 6)
        self._put(ram.MENU_Y, places[at], self.rows[at])

    def offer_name(self) -> None:
        self.mode = NAMES
        self._menu(2, 1, 0, 3)

    def _in_names(self, button: str) -> None:
        entry = self._move(button)
        if button != "a":
            return
        assert entry, "the letters' screen was opened"
        self.named += 1
        self.say("right", self.offer_name if self.named == 1 else self.wake_up)

    def wake_up(self) -> None:
        self._put(ram.STATUS_FLAGS_6, 1)
        self._arrive(38, 6, 3)

    # texts: strings are boxes, functions run between them

    def say(self, *lines: object) -> None:
        self.mode, self.lines = TEXT, [*lines]
        self._put(ram.FONT_LOADED, 1)

    def _in_text(self, button: str) -> None:
        if button not in ("a", "b"):
            return
        self.lines.pop(0)
        while self.lines and callable(self.lines[0]):
            happen = self.lines.pop(0)
            mode, self.mode = self.mode, WORLD
            happen()
            if self.mode != WORLD:
                return
            self.mode = mode
        self.mode = TEXT if self.lines else WORLD
        self._put(ram.FONT_LOADED, bool(self.lines))

    # the world

    def _arrive(self, number: int, y: int, x: int) -> None:
        self.mode = WORLD
        self._put(ram.FONT_LOADED, 0)
        self._put(ram.MAP_ID, number)
        self._put(ram.PLAYER_Y, y, x)
        rows, columns = ROOMS[number]
        self._put(ram.MAP_HEIGHT, rows // 2, columns // 2)
        ways = [(r, c) for m, r, c in (*DOORS, *MATS) if m == number]
        self._put(ram.WARP_COUNT, len(ways), *(v for r, c in ways for v in (r, c, 0, 0)))
        if number == 42 and not self.has("got_parcel"):
            self._put(ram.PLAYER_Y, 5, 2)
            self.say("you there", "take this", lambda: self._set("got_parcel"), "to the professor")

    @property
    def place(self) -> tuple[int, int, int]:
        return self._get(ram.MAP_ID), self._get(ram.PLAYER_Y), self._get(ram.PLAYER_X)

    def _in_world(self, button: str) -> None:
        if button == "a":
            self._speak()
        if button not in STEPS:
            return
        facing = {"down": 0, "up": 4, "left": 8, "right": 12}[button]
        turned, _ = self._get(ram.FACING) != facing, self._put(ram.FACING, facing)
        if not turned:
            self._walk(button)

    def _walk(self, button: str) -> None:
        number, y, x = self.place
        to_y, to_x = y + STEPS[button][0], x + STEPS[button][1]
        rows, columns = ROOMS[number]
        if not (0 <= to_y < rows and 0 <= to_x < columns):
            self._leave(button)
        elif to_x not in WALLS.get((number, to_y), ()):
            self._put(ram.PLAYER_Y, to_y, to_x)
            if (number, to_y, to_x) in DOORS:
                self._arrive(*DOORS[number, to_y, to_x])
            self._scripts()

    def _leave(self, button: str) -> None:
        number, y, x = self.place
        if (number, button) in EDGES:
            to, shift = EDGES[number, button]
            self._arrive(to, ROOMS[to][0] - 1 if button == "up" else 0, x + shift)
        elif button == "down" and (number, y, x) in MATS:
            self._arrive(*MATS[number, y, x])

    def _scripts(self) -> None:
        number, y, x = self.place
        if (number, y, x) == (0, 1, 10) and not self.has("followed_oak") and not self.soon:
            choose = ["choose", lambda: self._set("followed_oak", "asked_to_choose"), "well?"]
            self.soon, self.delay = ["wait", lambda: self._arrive(40, 3, 5), *choose], 300
        elif number == 40 and y == 6 and self.has("got_starter") and not self.has(_LAB):
            self.say("let us see", self._fight)
        elif number == 12 and y in (20, 28) and self.place[2] % 2:
            self.mode = FIGHT
            self._put(ram.IN_BATTLE, 1)

    def _fight(self) -> None:
        self.mode, self.blows = FIGHT, 6
        self._put(ram.IN_BATTLE, 2)

    def _in_fight(self, button: str) -> None:
        if self._get(ram.IN_BATTLE) == 2:
            self.blows -= button == "a"
            if not self.blows:
                self._put(ram.IN_BATTLE, 0)
                self._set(_LAB)
                self.say("lucky")
            return
        self.lines = [*self.lines[-2:], button]
        if self.lines == ["down", "right", "a"]:
            self._put(ram.IN_BATTLE, 0)
            self.mode = WORLD

    def _speak(self) -> None:
        number, y, x = self.place
        facing_up = self._get(ram.FACING) == 4
        if (number, y, x) == (40, 4, 8) and facing_up and not self._get(ram.PARTY_COUNT):
            self.say("this one?", lambda: self._put(ram.PARTY_COUNT, 1), "name it?", self._name_it)
        elif (number, y, x) == (40, 3, 5) and facing_up and self.has("got_parcel"):
            self.say("ah", "my parcel", "take this",
                     lambda: self._set("parcel_delivered", "got_pokedex"), "farewell")  # fmt: skip

    def _name_it(self) -> None:
        self.say("he takes his", lambda: self._set("got_starter"))


_LAB = "fought_rival_in_lab"
