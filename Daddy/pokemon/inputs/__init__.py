"""What was done at the emulator's door, as data: no emulator is needed to read it.

operations  what can be done at the door, as bytes
tape        a recording: whose game, where it begins, the operations, digests of the memory
recorder    what an emulator tells while it plays

Holds inputs only, never a state: whoever has the game sees the same, nobody gets it from here.
"""
