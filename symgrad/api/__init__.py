"""The public functions: argument checking and documentation around what the rooms below do."""
