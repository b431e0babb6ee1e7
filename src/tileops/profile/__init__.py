"""The first look from outside."""
