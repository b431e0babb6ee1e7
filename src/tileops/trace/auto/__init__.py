"""Timelines of kernels that nobody annotated: markers put into the CUDA source that TileLang generates."""
