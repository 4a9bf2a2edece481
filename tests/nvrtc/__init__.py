"""The NVRTC gate: every kernel's full source compiles for real GPUs, without one."""
