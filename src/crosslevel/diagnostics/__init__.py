"""Is the answer to be trusted? Coverage, cross-validation and sensitivity for any room."""
