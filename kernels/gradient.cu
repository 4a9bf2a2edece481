// Device hooks: what happens to a gradient while it is accumulated, and what is noted of it.
// The functions are composed to one kernel a chain of hooks by gradhook/kernels/gradient.py.

namespace gradhook {

template <typename F>
__device__ __forceinline__ F scale(F g, F factor) { return g * factor; }

// As numpy.clip: NaN stays.
template <typename F>
__device__ __forceinline__ F clip_value(F g, F low, F high) {
    return g < low ? low : g > high ? high : g;
}

template <typename F>
__device__ __forceinline__ F nan_to_num(F g, F nan, F high, F low) {
    return isnan(g) ? nan : isinf(g) ? (g > F(0) ? high : low) : g;
}

// noted[9] is the sum of squares of the gradient that the launch before saw.
template <typename F>
__device__ __forceinline__ F norm_factor(const double* noted, F limit) {
    const F factor = limit / (sqrt(static_cast<F>(noted[9])) + F(1e-6));
    return factor > F(1) ? F(1) : factor;
}

// Statistics of many values. low, high, sum and squares are of the finite ones.
struct Totals {
    double low, high, sum, squares, zeros, nans, infs, count;

    __device__ __forceinline__ static Totals none() {
        return Totals{0, 0, 0, 0, 0, 0, 0, 0};
    }
    __device__ __forceinline__ double finite() const { return count - nans - infs; }
};

struct Joined {
    __device__ __forceinline__ Totals operator()(Totals a, Totals b) const {
        if (b.finite() > 0) {
            const bool first = !(a.finite() > 0);
            a.low = first || b.low < a.low ? b.low : a.low;
            a.high = first || b.high > a.high ? b.high : a.high;
        }
        a.sum += b.sum;
        a.squares += b.squares;
        a.zeros += b.zeros;
        a.nans += b.nans;
        a.infs += b.infs;
        a.count += b.count;
        return a;
    }
};

// One thread's share of the statistics.
template <typename F>
struct Collector {
    F low = 0, high = 0, sum = 0, squares = 0;
    int zeros = 0, nans = 0, infs = 0, count = 0;

    __device__ __forceinline__ void take(F g) {
        if (isnan(g)) {
            ++nans;
        } else if (isinf(g)) {
            ++infs;
        } else {
            const bool first = count == nans + infs;
            low = first || g < low ? g : low;
            high = first || g > high ? g : high;
            sum += g;
            squares += g * g;
            zeros += g == F(0);
        }
        ++count;
    }
    __device__ __forceinline__ Totals totals() const {
        return Totals{static_cast<double>(low),   static_cast<double>(high),
                      static_cast<double>(sum),   static_cast<double>(squares),
                      static_cast<double>(zeros), static_cast<double>(nans),
                      static_cast<double>(infs),  static_cast<double>(count)};
    }
};

// Counts g in 64 bins of powers of two: bin k holds 2**(k - 40) <= abs(g) < 2**(k - 39), the
// outermost all beyond; zeros, NaN and Inf are in none.
template <typename F>
__device__ __forceinline__ void count_magnitude(F g, double* bins) {
    if (g == F(0) || isnan(g) || isinf(g)) return;
    const int k = static_cast<int>(ilogb(g)) + 40;
    count_up(bins + (k < 0 ? 0 : k > 63 ? 63 : k));
}

// Adds what the threads collected to `noted`: Totals since the last reset (0 to 7), the number of
// gradients (8), the last one's squares (9), running means of mean and mean square (10, 11) that
// forget with `decay`, and the count of blocks that have arrived (12). All zero at the start.
template <typename F>
__device__ __forceinline__ void note(const Collector<F>& collected, double* noted,
                                     double* partials, double decay) {
    reduce_grid(collected.totals(), Totals::none(), Joined(), reinterpret_cast<Totals*>(partials),
                reinterpret_cast<unsigned*>(noted + 12), [&](Totals total) {
                    Totals& before = *reinterpret_cast<Totals*>(noted);
                    before = Joined()(before, total);
                    noted[8] += 1;
                    noted[9] = total.nans > 0   ? 0.0 / 0.0
                               : total.infs > 0 ? 1.0 / 0.0
                                                : total.squares;
                    const double n = total.finite() > 0 ? total.finite() : 1.0;
                    noted[10] = decay * noted[10] + (1 - decay) * total.sum / n;
                    noted[11] = decay * noted[11] + (1 - decay) * total.squares / n;
                });
}

}  // namespace gradhook
