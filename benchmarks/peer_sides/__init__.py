"""What benchmarks/peers.py gives to each side, and what each side does with it."""
