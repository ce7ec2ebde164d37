"""Objectives: the tasks that a model is scored on while its heads are switched."""
