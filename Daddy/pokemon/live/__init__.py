"""An agent's inputs, played in the emulator of whoever watches (`Daddy.pokemon.inputs.stretch`).

chain    what arrived of one chain, and how much of it is verified
course   what to verify and what to show next, and why
scout    an emulator that verifies, and keeps places to begin at
show     an emulator that plays what is verified, sixty frames a second
judge    whether a chain can begin here
vigil    whether one of them hangs
lane     both for one stream, and what is said about it
sample   the cartridge's scripted player on tape, for benchmarks
booth    the process: words in, words out (`python -m Daddy.pokemon.live.booth`)
"""
