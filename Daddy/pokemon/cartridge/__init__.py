"""The free game: `daddy.gb` and `free_cartridge_tables`, both made by ``scripts.cartridge``."""
