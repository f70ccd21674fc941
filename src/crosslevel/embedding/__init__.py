"""People to one vector per bag, in one pass over a stream."""
