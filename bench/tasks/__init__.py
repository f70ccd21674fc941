"""The tasks, a file for each kind of truth; their list is ``bench/registry.py``."""
