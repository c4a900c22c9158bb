"""Recordings (`Daddy.pokemon.inputs`) made and played again, verified.

way      how a start state comes about from power-on
hand     an operation, done at an emulator
deck     one emulator that plays a recording and compares the digests
scout    a deck ahead of whoever watches: what is verified, and what was reached where
"""
