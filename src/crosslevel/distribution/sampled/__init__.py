"""The model of mean shrinkage with everything sampled by NUTS."""
