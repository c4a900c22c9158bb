"""Play as data: the inputs of an emulator, never a state. No emulator is needed to read it.

operations  every operation at an emulator, as bytes
tape        the format of a recording: game, start, operations, digests of the memory
recorder    the operations of a playing emulator, turned into a recording
"""
