"""From a Python function over NumPy arrays to a graph, by running it once on tracers."""
