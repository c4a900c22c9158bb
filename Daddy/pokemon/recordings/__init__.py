"""Recordings (`Daddy.pokemon.inputs`) from power-on are made here, and played with verification."""
