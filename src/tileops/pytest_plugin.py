"""placeholder, replaced within minutes."""
