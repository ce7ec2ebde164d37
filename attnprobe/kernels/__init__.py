"""Hot loops over attention rows: compiled for the CPU, plain torch anywhere else."""
