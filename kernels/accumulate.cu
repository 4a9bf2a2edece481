// N-ary gradient accumulation: K gradients of one slot are summed in one pass.
// Preamble of CuPy's ElementwiseKernel on CUDA (gradhook/kernels.py); target_cpu.h on the CPU.

namespace gradhook {

// accumulate<Sum>(x0, x1, ...): the inputs added from left to right in type Sum, unrounded.
// Sum: float for 16-bit floats (one rounding, at the caller's store), else the inputs' own type.
template <typename Sum, typename First>
__device__ __forceinline__ Sum accumulate(First first) {
    return static_cast<Sum>(first);
}

template <typename Sum, typename First, typename Second, typename... Rest>
__device__ __forceinline__ Sum accumulate(First first, Second second, Rest... rest) {
    return accumulate<Sum>(
        static_cast<Sum>(static_cast<Sum>(first) + static_cast<Sum>(second)), rest...);
}

}  // namespace gradhook
