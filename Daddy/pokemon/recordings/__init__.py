"""Makes recordings (`Daddy.pokemon.inputs`) from power-on, and plays recordings, verifying them."""
