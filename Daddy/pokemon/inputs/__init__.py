"""Defines recordings: an emulator's inputs, never a state; reading one needs no emulator.

emulator_operations  every operation on an emulator, as bytes
recording_format     the format of a recording: game, start, operations, digests of the memory
input_recorder       makes a recording from the operations of a running emulator
"""
