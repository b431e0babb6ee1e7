"""A report's forms: text, JSON, and a page."""
