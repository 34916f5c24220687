// Real or complex numbers of one precision.  REAL is float or double, COMPLEX is 0 or 1.
struct Number {
    REAL re;
#if COMPLEX
    REAL im;
#endif
};

__device__ inline REAL square(Number a) {
#if COMPLEX
    return a.re * a.re + a.im * a.im;
#else
    return a.re * a.re;
#endif
}

__device__ inline Number times(Number a, Number b) {
#if COMPLEX
    return Number{a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
#else
    return Number{a.re * b.re};
#endif
}

__device__ inline Number conjugate(Number a) {
#if COMPLEX
    a.im = -a.im;
#endif
    return a;
}

// conj(a) * b
__device__ inline Number dot(Number a, Number b) {
#if COMPLEX
    return Number{a.re * b.re + a.im * b.im, a.re * b.im - a.im * b.re};
#else
    return Number{a.re * b.re};
#endif
}

__device__ inline Number scaled(Number a, REAL s) {
#if COMPLEX
    return Number{a.re * s, a.im * s};
#else
    return Number{a.re * s};
#endif
}

__device__ inline void add(Number& a, Number b) {
    a.re += b.re;
#if COMPLEX
    a.im += b.im;
#endif
}
