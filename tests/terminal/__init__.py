"""Tests of terminal tasks."""
