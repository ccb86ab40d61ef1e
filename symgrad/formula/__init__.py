"""Formulas: a graph printed as text, LaTeX, SymPy and NumPy source, and drawn as a picture."""
