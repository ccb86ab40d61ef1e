"""From Program to source text, and from source text to loaded machine code."""
