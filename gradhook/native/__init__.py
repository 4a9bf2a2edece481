"""The kernels' own text on the CPU: built by the machine's C++ compiler, called on NumPy arrays.

compiler finds the compiler and keeps what it built; library loads it and calls it; threads is what
work is divided among. Without a compiler, or with GRADHOOK_NATIVE=0, NumPy's formulas run.
"""
