"""Pure. Encodes one instruction of the Game Boy's processor (SM83).

The length of an instruction never depends on the value of a symbol, so that two passes suffice.
"""

from collections.abc import Callable

from scripts.cartridge.expressions import AsmError

R8 = ("b", "c", "d", "e", "h", "l", "[hl]", "a")
R16 = ("bc", "de", "hl", "sp")
R16_STACK = ("bc", "de", "hl", "af")
CONDITIONS = ("nz", "z", "nc", "c")
ALU = ("add", "adc", "sub", "sbc", "and", "xor", "or", "cp")
ROTATE = ("rlc", "rrc", "rl", "rr", "sla", "sra", "swap", "srl")
BITS = ("bit", "res", "set")
ACCUMULATOR = {"[bc]": 0x02, "[de]": 0x12, "[hl+]": 0x22, "[hl-]": 0x32}
FIXED = {
    "nop": "00", "halt": "76", "stop": "1000", "di": "f3", "ei": "fb", "ret": "c9", "reti": "d9",
    "rlca": "07", "rrca": "0f", "rla": "17", "rra": "1f", "daa": "27", "cpl": "2f", "scf": "37",
    "ccf": "3f",
}  # fmt: skip
BYTE = range(-128, 256)
NEAR = range(-128, 128)
REGISTERS = {*R8, *R16, *R16_STACK, *ACCUMULATOR, *CONDITIONS, "[c]"}
Value = Callable[[str], int]


def encode(op: str, args: list[str], value: Value, pc: int, final: bool) -> bytes:
    """Encode ``op args`` at address ``pc``; ``final``: all symbols have their values."""
    a = [arg.lower() if arg.lower() in REGISTERS else arg for arg in args]
    try:
        if op in FIXED and not a:
            return bytes.fromhex(FIXED[op])
        return ENCODERS[op](op, a, value, (pc, final))
    except (KeyError, ValueError, TypeError) as error:
        raise AsmError(f"cannot encode {op} {', '.join(args)}") from error


def _byte(value: int) -> bytes:
    if value not in BYTE:
        raise AsmError(f"{value} does not fit in a byte")
    return bytes([value & 255])


def _word(value: int) -> bytes:
    return bytes([value & 255, value >> 8 & 255])


def _address(arg: str) -> str | None:
    """Return the expression inside ``[...]`` if it is an address and not a register."""
    inside = arg.startswith("[") and arg.endswith("]") and arg not in REGISTERS
    return arg[1:-1] if inside else None


def _load(_op: str, a: list[str], value: Value, _at: tuple[int, bool]) -> bytes:
    to, source = a
    if to in R8 and source in R8 and (to, source) != ("[hl]", "[hl]"):
        return bytes([0x40 + 8 * R8.index(to) + R8.index(source)])
    if (to, source) == ("sp", "hl"):
        return b"\xf9"
    if to in R16:
        return bytes([0x01 + 16 * R16.index(to)]) + _word(value(source))
    if "a" in a and (code := _load_memory(to, source, value)):
        return code
    if _address(to) and source == "sp":
        return b"\x08" + _word(value(to[1:-1]))
    return bytes([0x06 + 8 * R8.index(to)]) + _byte(value(source))


def _load_memory(to: str, source: str, value: Value) -> bytes:
    """Encode a load of the accumulator to or from memory; empty for other operands."""
    write = source == "a"
    place = to if write else source
    if place in ACCUMULATOR:
        return bytes([ACCUMULATOR[place] + (0 if write else 8)])
    if address := _address(place):
        return (b"\xea" if write else b"\xfa") + _word(value(address))
    return b""


def _load_high(_op: str, a: list[str], value: Value, _at: tuple[int, bool]) -> bytes:
    to, source = a
    if "[c]" in a:
        return b"\xe2" if to == "[c]" else b"\xf2"
    write = source == "a"
    return (b"\xe0" if write else b"\xf0") + bytes([value((to if write else source)[1:-1]) & 255])


def _count(op: str, a: list[str], _value: Value, _at: tuple[int, bool]) -> bytes:
    (register,) = a
    down = op == "dec"
    if register in R16:
        return bytes([0x03 + 8 * down + 16 * R16.index(register)])
    return bytes([0x04 + down + 8 * R8.index(register)])


def _alu(op: str, a: list[str], value: Value, _at: tuple[int, bool]) -> bytes:
    to, source = a if a[1:] else ("a", *a)
    if op == "add" and to == "hl":
        return bytes([0x09 + 16 * R16.index(source)])
    if op == "add" and to == "sp":
        return b"\xe8" + _byte(value(source))
    if to != "a":
        raise ValueError(to)
    base = 0x80 + 8 * ALU.index(op)
    if source in R8:
        return bytes([base + R8.index(source)])
    return bytes([base + 0x46]) + _byte(value(source))


def _rotate(op: str, a: list[str], _value: Value, _at: tuple[int, bool]) -> bytes:
    (register,) = a
    return bytes([0xCB, 8 * ROTATE.index(op) + R8.index(register)])


def _bit(op: str, a: list[str], value: Value, _at: tuple[int, bool]) -> bytes:
    bit, register = a
    return bytes([0xCB, 0x40 * (1 + BITS.index(op)) + 8 * value(bit) + R8.index(register)])


def _stack(op: str, a: list[str], _value: Value, _at: tuple[int, bool]) -> bytes:
    (registers,) = a
    return bytes([(0xC5 if op == "push" else 0xC1) + 16 * R16_STACK.index(registers)])


def _condition(condition: list[str]) -> int:
    (name,) = condition
    return CONDITIONS.index(name)


def _jump(op: str, a: list[str], value: Value, _at: tuple[int, bool]) -> bytes:
    if op == "jp" and a == ["hl"]:
        return b"\xe9"
    plain, conditional = (0xC3, 0xC2) if op == "jp" else (0xCD, 0xC4)
    *condition, target = a
    first = conditional + 8 * _condition(condition) if condition else plain
    return bytes([first]) + _word(value(target))


def _jump_near(_op: str, a: list[str], value: Value, at: tuple[int, bool]) -> bytes:
    pc, final = at
    *condition, target = a
    distance = value(target) - (pc + 2)
    if final and distance not in NEAR:
        raise AsmError(f"jr to {target} is {distance} bytes away; use jp")
    first = 0x20 + 8 * _condition(condition) if condition else 0x18
    return bytes([first, distance & 255])


def _return(_op: str, a: list[str], _value: Value, _at: tuple[int, bool]) -> bytes:
    (condition,) = a
    return bytes([0xC0 + 8 * CONDITIONS.index(condition)])


ENCODERS = {
    "ld": _load, "ldh": _load_high, "inc": _count, "dec": _count, "push": _stack, "pop": _stack,
    "jp": _jump, "call": _jump, "jr": _jump_near, "ret": _return,
    **dict.fromkeys(ALU, _alu), **dict.fromkeys(ROTATE, _rotate), **dict.fromkeys(BITS, _bit),
}  # fmt: skip
