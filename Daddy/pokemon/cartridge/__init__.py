"""The free game: `daddy.gb` and `rom_symbols`, both written by ``python -m scripts.cartridge``."""
