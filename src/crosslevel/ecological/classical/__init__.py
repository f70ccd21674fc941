"""Methods that need no people, only the two margins of every unit: bounds, Goodman, King, R x C."""
