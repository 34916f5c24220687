// One column absorbed into the environments of many walkers, as contraction/row.py does it with
// matrix products, but with all intermediates in shared memory: through global memory they cost
// more time than the arithmetic.  Goes after number.cuh; DMMA = 1 uses the matrix units for
// double precision.
//
// One block serves one walker and a slice of the values o of the top's outer leg:
//
//     X[o, v, r1.., b]       = sum_t    top[o, v, t] env[t, r1.., b]
//     X[o, r1', d, r2.., b]  = sum_v,r1 site1[r1', d, v, r1] X[o, v, r1, r2.., b]     (each row)
//     out[o, r1'.., b']      = sum_d,b  X[o, r1'.., d, b] bottom[d, b, b']
//
// Without a bottom the last X goes out.

__device__ inline int padded(int n) { return n + ((4 - n) & 7); }  // = 4 mod 8: no bank conflicts

// C[row(m) + across(n)] = sum_k A[m * lda + k] B[k * ldb + column(n)].
// A warp owns blocks of 8 MT x 8 NT; a lane holds row lane / 4 and columns 2 (lane % 4) + {0, 1} of
// each 8 x 8 tile.
template <int MT, int NT, typename Column, typename Row, typename Across>
__device__ inline void tiles(int M, int N, int K, const Number* A, int lda, const Number* B,
                             int ldb, Column column, Number* C, Row row, Across across)
{
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
    const int quad = lane / 4, slot = lane % 4;
    const int wide = (N + 8 * NT - 1) / (8 * NT), high = (M + 8 * MT - 1) / (8 * MT);
    for (int tile = warp; tile < wide * high; tile += warps) {
        const int m0 = tile / wide * 8 * MT, n0 = tile % wide * 8 * NT;
        const Number* a[MT];
#pragma unroll
        for (int i = 0; i < MT; ++i) {
            const int m = m0 + 8 * i + quad;
            a[i] = A + (size_t)(m < M ? m : M - 1) * lda;
        }
#if DMMA
        const Number* b[NT];
        double c[MT][NT][2];
#pragma unroll
        for (int j = 0; j < NT; ++j) {
            const int n = n0 + 8 * j + quad;
            b[j] = B + (size_t)slot * ldb + column(n < N ? n : N - 1);
#pragma unroll
            for (int i = 0; i < MT; ++i) c[i][j][0] = c[i][j][1] = 0;
        }
#pragma unroll 4
        for (int k = 0; k < K; k += 4) {
            const bool inside = k + slot < K;
            double fa[MT], fb[NT];
#pragma unroll
            for (int i = 0; i < MT; ++i) fa[i] = inside ? a[i][k + slot].re : 0.0;
#pragma unroll
            for (int j = 0; j < NT; ++j) fb[j] = inside ? b[j][(size_t)k * ldb].re : 0.0;
#pragma unroll
            for (int i = 0; i < MT; ++i)
#pragma unroll
                for (int j = 0; j < NT; ++j)
                    asm("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0,%1},{%2},{%3},{%0,%1};"
                        : "+d"(c[i][j][0]), "+d"(c[i][j][1]) : "d"(fa[i]), "d"(fb[j]));
        }
#else
        int at[NT][2];
        Number c[MT][NT][2];
#pragma unroll
        for (int j = 0; j < NT; ++j)
#pragma unroll
            for (int e = 0; e < 2; ++e) {
                const int n = n0 + 8 * j + 2 * slot + e;
                at[j][e] = column(n < N ? n : N - 1);
#pragma unroll
                for (int i = 0; i < MT; ++i) c[i][j][e] = Number{};
            }
#pragma unroll 2
        for (int k = 0; k < K; ++k) {
            Number fa[MT];
#pragma unroll
            for (int i = 0; i < MT; ++i) fa[i] = a[i][k];
#pragma unroll
            for (int j = 0; j < NT; ++j)
#pragma unroll
                for (int e = 0; e < 2; ++e) {
                    const Number fb = B[(size_t)k * ldb + at[j][e]];
#pragma unroll
                    for (int i = 0; i < MT; ++i) add(c[i][j][e], times(fa[i], fb));
                }
        }
#endif
        int to[NT][2];
#pragma unroll
        for (int j = 0; j < NT; ++j)
#pragma unroll
            for (int e = 0; e < 2; ++e) {
                const int n = n0 + 8 * j + 2 * slot + e;
                to[j][e] = n < N ? across(n) : -1;
            }
#pragma unroll
        for (int i = 0; i < MT; ++i) {
            const int m = m0 + 8 * i + quad;
            if (m >= M) continue;
            Number* line = C + row(m);
#pragma unroll
            for (int j = 0; j < NT; ++j)
#pragma unroll
                for (int e = 0; e < 2; ++e)
                    if (to[j][e] >= 0) {
#if DMMA
                        line[to[j][e]] = Number{c[i][j][e]};
#else
                        line[to[j][e]] = c[i][j][e];
#endif
                    }
        }
    }
}

// The largest tiles that still give every warp one.
template <typename Column, typename Row, typename Across>
__device__ inline void product(int M, int N, int K, const Number* A, int lda, const Number* B,
                               int ldb, Column column, Number* C, Row row, Across across)
{
    const int warps = blockDim.x / 32;
    if (((M + 15) / 16) * ((N + 31) / 32) >= warps)
        tiles<2, 4>(M, N, K, A, lda, B, ldb, column, C, row, across);
    else if (((M + 15) / 16) * ((N + 15) / 16) >= warps)
        tiles<2, 2>(M, N, K, A, lda, B, ldb, column, C, row, across);
    else
        tiles<1, 1>(M, N, K, A, lda, B, ldb, column, C, row, across);
}

// Copies rows into shared memory, without waiting for them where the device can: see arrived().
__device__ inline void stage(const Number* from, Number* to, int rows, int columns, int ld)
{
    const int lane = threadIdx.x % 32, warps = blockDim.x / 32;
    for (int row = threadIdx.x / 32; row < rows; row += warps)
        for (int column = lane; column < columns; column += 32) {
            const Number* source = from + (size_t)row * columns + column;
            Number* target = to + (size_t)row * ld + column;
#if __CUDA_ARCH__ >= 800
            asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(
                             (unsigned)__cvta_generic_to_shared(target)),
                         "l"(source), "n"(sizeof(Number)));
#else
            *target = *source;
#endif
        }
}

__device__ inline void arrived()
{
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_all;");
#endif
    __syncthreads();
}

// Legs: of the top t (inner), o (outer), v (vertical); of the upper row in1 (towards the
// environment), out1 (away from it), down1, its upper leg being v; of the lower row likewise, its
// upper leg being down1, or in2 = out2 = 1 where there is none; of the bottom b and bo (outer).
// A block takes `slice` values of o; buffers have x_size and site_size entries.
//
// A null top, site2 or bottom is absent.  *_step: entries from one walker's matrix to the next, 0
// where all share one.
extern "C" __global__ void __launch_bounds__(MAX_THREADS, 1) transfer(
    const Number* env, const Number* top, const Number* site1, const Number* site2,
    const Number* bottom, Number* out, long long env_step, long long top_step,
    long long site1_step, long long site2_step, long long bottom_step, int t, int o, int v, int in1,
    int out1, int down1, int in2, int out2, int down2, int b, int bo, int slice, int x_size,
    int site_size)
{
    extern __shared__ char memory[];
    Number* x = reinterpret_cast<Number*>(memory);
    Number* y = x + x_size;
    Number* site = y + x_size;
    Number* base = site + site_size;
    const int walker = blockIdx.x, first = blockIdx.y * slice;
    const int s = o - first < slice ? o - first : slice;
    const bool two = site2 != nullptr;
    env += env_step * walker;
    if (top) top += top_step * walker + (size_t)first * v * t;
    site1 += site1_step * walker;
    if (two) site2 += site2_step * walker;
    if (bottom) bottom += bottom_step * walker;

    // X[o, v, in1, (in2, b)]: rows of length in2 * b, padded.
    const int rest1 = in2 * b, ld1 = padded(rest1), k1 = v * in1;
    const int ld_site1 = padded(k1), ld_base = padded(bo), ld_env = padded(in1 * rest1);
    const bool env_fits = top && t * ld_env <= x_size;
    stage(site1, site, out1 * down1, k1, ld_site1);
    if (bottom) stage(bottom, base, (two ? down2 : down1) * b, bo, ld_base);
    if (!top) stage(env, x, in1, rest1, ld1);
    if (env_fits) stage(env, y, t, in1 * rest1, ld_env);
    arrived();
    if (top) {
        product(s * v, in1 * rest1, t, top, t, env_fits ? y : env, env_fits ? ld_env : in1 * rest1,
                [](int n) { return n; }, x, [=](int m) { return m * in1 * ld1; },
                [=](int n) { return n / rest1 * ld1 + n % rest1; });
        __syncthreads();
    }

    // Upper row.  What comes out is read by the lower row as rows of length b, by the bottom as
    // rows of length down1 * b.
    const bool open = bottom == nullptr;
    const int ld2 = padded(b), k2 = down1 * in2, high1 = out1 * down1;
    out += ((size_t)walker * o + first) * out1 * out2 * (open ? (two ? down2 : down1) * b : bo);
    const auto column1 = [=](int n) { return n / rest1 * k1 * ld1 + n % rest1; };
    if (two) {
        product(high1, s * rest1, k1, site, ld_site1, x, ld1, column1, y,
                [=](int m) { return m * in2 * ld2; },
                [=](int n) {
                    const int rest = n % rest1;
                    return n / rest1 * high1 * in2 * ld2 + rest / b * ld2 + rest % b;
                });
        __syncthreads();
        const int ld_site2 = padded(k2);
        stage(site2, site, out2 * down2, k2, ld_site2);
        arrived();
        const int wide = open ? down2 * b : padded(down2 * b);
        product(out2 * down2, s * out1 * b, k2, site, ld_site2, y, ld2,
                [=](int n) { return n / b * k2 * ld2 + n % b; }, open ? out : x,
                [=](int m) { return m / down2 * wide + m % down2 * b; },
                [=](int n) { return n / b * out2 * wide + n % b; });
        if (open) return;
        __syncthreads();
        product(s * out1 * out2, bo, down2 * b, x, wide, base, ld_base, [](int n) { return n; },
                out, [=](int m) { return m * bo; }, [](int n) { return n; });
        return;
    }
    const int wide = open ? down1 * b : padded(down1 * b);
    product(high1, s * rest1, k1, site, ld_site1, x, ld1, column1, open ? out : y,
            [=](int m) { return m / down1 * wide + m % down1 * b; },
            [=](int n) { return n / rest1 * out1 * wide + n % rest1; });
    if (open) return;
    __syncthreads();
    product(s * out1, bo, down1 * b, y, wide, base, ld_base, [](int n) { return n; },
            out, [=](int m) { return m * bo; }, [](int n) { return n; });
}
