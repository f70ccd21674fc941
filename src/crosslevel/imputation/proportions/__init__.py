"""Learn to classify persons from the proportions of labels in bags."""
