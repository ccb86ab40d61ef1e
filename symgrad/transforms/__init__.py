"""Graph in, graph out: differentiation and simplification."""
