// The CPU target: what a kernel file needs so that the machine's C++ compiler builds it.
// The loop skeleton lives here; kernel files hold only functors (DESIGN.md section 5).
#pragma once
#include <cstddef>

#define __device__
#define __forceinline__ inline

namespace gradhook {

// Calls body(i) for every i below n. Each element is independent; no order is promised.
template <typename Body>
inline void for_each_element(std::size_t n, Body body) {
    for (std::size_t i = 0; i < n; ++i) body(i);
}

}  // namespace gradhook
