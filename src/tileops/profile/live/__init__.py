"""Profiles of what runs now: callables beside each other, and loops."""
