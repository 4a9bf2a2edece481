// One step of an LSTM and its gradient, after and before the matrix products. Gates are arrays of
// `size` elements one after the other: cell, input, forget, output.
#pragma once

namespace gradhook {

template <typename F>
inline F logistic_of_half(F x) { return tanh(x) * F(0.5) + F(0.5); }  // x: halved already

// gates: what the functions of the gates are given (halved, but for the cell's), then their
// results. c: the cells before; cells, outputs: after.
template <typename T>
inline void lstm_step(T* gates, const T* c, T* cells, T* outputs, long long size) {
    in_parts(size, 1 << 12, [=](long long begin, long long end, long long) {
        GRADHOOK_EACH
        for (long long k = begin; k < end; ++k) {
            const T cell = tanh(gates[k]), input = logistic_of_half(gates[size + k]);
            const T forget = logistic_of_half(gates[2 * size + k]);
            const T output = logistic_of_half(gates[3 * size + k]);
            const T now = forget * c[k] + cell * input;
            gates[k] = cell;
            gates[size + k] = input;
            gates[2 * size + k] = forget;
            gates[3 * size + k] = output;
            cells[k] = now;
            outputs[k] = output * tanh(now);
        }
    });
}

// shares: what the four gates of the next step add to the gradient of h, later: the next step's to
// that of c, then this step's to the one before. out: the gradients of the gates before their
// functions, `far` apart.
template <typename T>
inline void lstm_step_vjp(const T* gates, const T* cells, const T* older, const T* by_h,
                          const T* by_c, const T* shares, T* later, T* out, long long far,
                          long long size) {
    in_parts(size, 1 << 12, [=](long long begin, long long end, long long) {
        GRADHOOK_EACH
        for (long long k = begin; k < end; ++k) {
            const T cell = gates[k], input = gates[size + k], forget = gates[2 * size + k];
            const T output = gates[3 * size + k], seen = tanh(cells[k]);
            const T g_h = by_h[k] + (shares[k] + shares[size + k] + shares[2 * size + k] +
                                     shares[3 * size + k]);
            const T g_c = g_h * output * (T(1) - seen * seen) + later[k] + by_c[k];
            out[k] = g_c * input * (T(1) - cell * cell);
            out[far + k] = g_c * cell * input * (T(1) - input);
            out[2 * far + k] = g_c * older[k] * forget * (T(1) - forget);
            out[3 * far + k] = g_h * seen * output * (T(1) - output);
            later[k] = g_c * forget;
        }
    });
}

}  // namespace gradhook
