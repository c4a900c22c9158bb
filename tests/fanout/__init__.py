"""Tests of the fan-out of one program over many sandboxes."""
