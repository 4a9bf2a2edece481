"""Benchmarks of gradhook against PyTorch and against raw NumPy; see README.md beside this file."""
