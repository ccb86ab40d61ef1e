"""Expressions, graphs, abstract values: what every other room is built of."""
