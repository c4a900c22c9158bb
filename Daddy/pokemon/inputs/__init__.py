"""Defines recordings: an emulator's inputs, never a state; reading one needs no emulator."""
