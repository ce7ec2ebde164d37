"""Metrics of tasks, with their errors and tests."""
