"""What a model is asked to do while its heads are switched."""
