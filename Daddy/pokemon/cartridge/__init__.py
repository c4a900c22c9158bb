"""The free game: `daddy.gb` and `symbols`, both written by ``python -m scripts.cartridge``."""
