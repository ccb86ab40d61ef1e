"""Derivatives against finite differences: numbers, verdicts, the report, and the operation to blame."""
