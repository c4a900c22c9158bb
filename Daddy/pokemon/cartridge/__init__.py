"""The free game: `daddy.gb` and `cartridge_events`, both made by ``scripts.cartridge``."""
