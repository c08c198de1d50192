"""CUDA C++ that every blocked plan on a device needs, whatever the formula is.

`PRELUDE` stands before a generated kernel.  The types are macros of the compiler: ``REAL`` is what
is computed in, ``WEIGHT`` how weights are kept for the product with values; ``ENTRY``, ``VALUE``
and ``OUT`` are those of given matrices, of values and of the result.  Numbers of two bytes are read
and written through conversions of the instruction set, so that no header is included.

`FINISH` ends a strip: it adds the products of parts of the keys, and divides by the sums.

Invariant: positions and offsets have 64 bits, and any power of two is right as the number of
threads of a block, one too.
"""

from __future__ import annotations

PRELUDE = r"""
typedef REAL real;
struct half16 { unsigned short bits; };
typedef WEIGHT weight;
typedef ENTRY entry;

// The largest weight: of two bytes, so much that small ones keep their digits.
#define LARGEST (sizeof(weight) < sizeof(real) ? real(32768) : real(1))

#ifdef __CUDACC__
#define INFINITE (real(__int_as_float(0x7f800000)))
__device__ __forceinline__ float value_of(unsigned short bits) {
    float x;
    asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(bits));
    return x;
}
__device__ __forceinline__ unsigned short bits_of(float x) {
    unsigned short bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x));
    return bits;
}
#endif
__device__ __forceinline__ real wide(real x) { return x; }
__device__ __forceinline__ real wide(half16 x) { return real(value_of(x.bits)); }
__device__ __forceinline__ void put(real* at, real x) { *at = x; }
__device__ __forceinline__ void put(half16* at, real x) { at->bits = bits_of(float(x)); }

// NaN counts as the larger one: it is no score that may be lost.
__device__ __forceinline__ real larger(real x, real y) { return y > x || y != y ? y : x; }
__device__ __forceinline__ real added(real x, real y) { return x + y; }

// Over all threads of a block, in an order that does not depend on chance.
template <real (*together)(real, real)>
__device__ real over_block(real x, real* shared) {
    shared[threadIdx.x] = x;
    __syncthreads();
    for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) {
            shared[threadIdx.x] = together(shared[threadIdx.x], shared[threadIdx.x + half]);
        }
        __syncthreads();
    }
    x = shared[0];
    __syncthreads();
    return x;
}
"""

FINISH = r"""
typedef VALUE value;
typedef OUT result;

// What values sum to, over what weights sum to.  Where a value is no finite number, and keys may be
// hidden, it is summed again: a value that has no weight has no influence, not even as 0 times NaN.
extern "C" __global__ void finish(
    const real* products, long long parts, long long apart,
    const weight* weights, long long pitch, long long width, const real* totals,
    const value* values, long long v_h, long long v_j, long long v_c,
    const bool* finite, long long f_h,
    result* out, long long o_h, long long o_i, long long o_c, long long columns)
{
    const long long head = blockIdx.y, row = head * gridDim.x + blockIdx.x;
    const real total = totals[row];
    const bool again = finite && !finite[head * f_h];
    weights += row * pitch;
    values += head * v_h;
    out += head * o_h + (long long)blockIdx.x * o_i;
    for (long long c = threadIdx.x; c < columns; c += blockDim.x) {
        real sum = 0;
        for (long long part = 0; part < parts; ++part) {
            sum += products[part * apart + row * columns + c];
        }
        if (again) {
            sum = 0;
            for (long long j = 0; j < width; ++j) {
                const real p = wide(weights[j]);
                if (p != 0) sum += p * wide(values[j * v_j + c * v_c]);
            }
        }
        put(out + c * o_c, total == 0 ? real(0) : sum / total);
    }
}
"""
