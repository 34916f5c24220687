// Orthonormal basis of the columns of many tall matrices: Householder QR, one block a matrix.
// A block has WARPS warps of LANES threads.  Goes after number.cuh.

__device__ inline REAL warp_sum(REAL x) {
    for (int away = LANES / 2; away > 0; away /= 2) x += __shfl_xor_sync(0xffffffffu, x, away);
    return x;
}

__device__ inline Number warp_sum(Number x) {
    x.re = warp_sum(x.re);
#if COMPLEX
    x.im = warp_sum(x.im);
#endif
    return x;
}

__device__ inline REAL warp_max(REAL x) {
    for (int away = LANES / 2; away > 0; away /= 2) {
        REAL other = __shfl_xor_sync(0xffffffffu, x, away);
        x = other > x ? other : x;
    }
    return x;
}

// a: (batch, m, k) row-major; q: (batch, m, n) with n = min(m, k) orthonormal columns.
extern "C" __global__ void orthonormal_basis(
    const Number* __restrict__ a, Number* __restrict__ q, int m, int k, int n)
{
    extern __shared__ char memory[];
    Number* columns = reinterpret_cast<Number*>(memory);       // n columns of m entries
    Number* tau = columns + (size_t)n * m;
    __shared__ REAL largest[WARPS];
    const int lane = threadIdx.x % LANES, warp = threadIdx.x / LANES;
    const Number* mine = a + (size_t)blockIdx.x * m * k;
    Number* out = q + (size_t)blockIdx.x * m * n;

    REAL size = 0;
    for (int at = threadIdx.x; at < m * n; at += blockDim.x) {
        int row = at / n, column = at - row * n;
        Number x = mine[row * k + column];
        columns[column * m + row] = x;
        REAL s = square(x);
        size = s > size ? s : size;
    }
    size = warp_max(size);
    if (lane == 0) largest[warp] = size;
    __syncthreads();
    for (int w = 0; w < WARPS; ++w) size = largest[w] > size ? largest[w] : size;
    // Entries are brought to size 1, so that squares neither overflow nor vanish.
    const REAL scale = size > 0 ? (REAL)1 / sqrt(size) : (REAL)1;
    for (int at = threadIdx.x; at < m * n; at += blockDim.x)
        columns[at] = scaled(columns[at], scale);
    __syncthreads();

    // H_j = 1 - tau v v^dagger with v[j] = 1, as LAPACK chooses it, so that Q is LAPACK's too.  A
    // column is written by one warp only, so one barrier a step is enough.
    for (int j = 0; j < n; ++j) {
        Number* x = columns + (size_t)j * m;
        REAL below = 0;
        for (int row = j + 1 + lane; row < m; row += LANES) below += square(x[row]);
        below = warp_sum(below);
        const Number head = x[j];
        Number t = {}, inverse = {};                           // tau, 1 / (head - beta)
        bool turns = below > 0;
#if COMPLEX
        turns = turns || head.im != 0;
#endif
        if (turns) {
            const REAL norm = sqrt(square(head) + below), beta = head.re < 0 ? norm : -norm;
            Number pivot = head;
            pivot.re -= beta;
            t = scaled(pivot, -1 / beta);
            inverse = scaled(conjugate(pivot), 1 / square(pivot));
        }
        for (int c = j + 1; c < n; ++c) {
            if (c % WARPS != warp || !turns) continue;
            Number* y = columns + (size_t)c * m;
            Number w = {};
            for (int row = j + 1 + lane; row < m; row += LANES)
                add(w, dot(times(x[row], inverse), y[row]));
            w = warp_sum(w);
            add(w, y[j]);
            w = scaled(times(conjugate(t), w), -1);
            __syncwarp();
            for (int row = j + 1 + lane; row < m; row += LANES)
                add(y[row], times(w, times(x[row], inverse)));
            if (lane == 0) add(y[j], w);
        }
        __syncthreads();
        if (j % WARPS == warp) {
            for (int row = j + 1 + lane; row < m; row += LANES) x[row] = times(x[row], inverse);
            if (lane == 0) tau[j] = t;
        }
    }
    __syncthreads();

    // Q = H_0 H_1 ... applied to unit vectors, backward and in place.
    for (int j = n - 1; j >= 0; --j) {
        Number* v = columns + (size_t)j * m;
        const Number t = scaled(tau[j], -1);
        for (int c = j + 1; c < n; ++c) {
            if (c % WARPS != warp) continue;
            Number* y = columns + (size_t)c * m;
            Number w = {};
            for (int row = j + 1 + lane; row < m; row += LANES) add(w, dot(v[row], y[row]));
            w = times(t, warp_sum(w));
            for (int row = j + 1 + lane; row < m; row += LANES) add(y[row], times(w, v[row]));
            if (lane == 0) y[j] = w;
        }
        __syncthreads();
        if (j % WARPS == warp) {
            for (int row = j + 1 + lane; row < m; row += LANES) v[row] = times(t, v[row]);
            if (lane == 0) {
                v[j] = t;
                v[j].re += 1;
            }
            __syncwarp();
        }
    }
    __syncthreads();
    for (int at = threadIdx.x; at < m * n; at += blockDim.x) {
        int row = at / n, column = at - row * n;
        out[at] = columns[column * m + row];
    }
}
