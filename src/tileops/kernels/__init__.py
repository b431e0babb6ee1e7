"""TileLang kernels."""
