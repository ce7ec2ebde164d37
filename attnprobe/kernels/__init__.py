"""The hot loops over attention rows. They are compiled for the CPU, and plain torch anywhere else."""
