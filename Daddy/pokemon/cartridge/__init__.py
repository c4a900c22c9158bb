"""The free test game: our own Game Boy cartridge whose RAM layout is that of the real game."""
