"""The one assumption that margins cannot check: how far it would have to fail, and a test where there is one."""
