"""Compiles plain NumPy functions and their exact derivatives to NumPy and C."""
