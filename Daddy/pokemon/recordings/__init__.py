"""Recordings (`Daddy.pokemon.inputs`) made from power-on, and played again, verified."""
