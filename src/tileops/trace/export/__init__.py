"""What a Timeline can be written as: one module or package a format, each reading the Timeline and nothing else."""
