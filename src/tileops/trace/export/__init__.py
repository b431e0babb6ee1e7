"""What a Timeline can be written as: one package a format, each reading the Timeline and nothing else."""
