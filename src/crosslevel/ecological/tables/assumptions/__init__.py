"""The assumption that margins cannot check: how far it would have to fail, and a test of the part that can be tested."""
