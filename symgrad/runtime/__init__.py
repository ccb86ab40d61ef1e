"""Calling what was compiled."""
