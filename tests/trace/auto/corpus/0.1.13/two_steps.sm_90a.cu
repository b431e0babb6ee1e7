#if defined(_MSC_VER) && !defined(__clang__) && _MSC_VER < 1940
#define _tl_orig_alignas alignas
#define alignas(N) _tl_orig_alignas((N) <= 64 ? (N) : 64)
#include <cuda.h>
#undef alignas
#define alignas _tl_orig_alignas
#endif
#include <tl_templates/cuda/reduce.h>
#include <tl_templates/cuda/scan.h>
#include <tl_templates/cuda/ldsm.h>
#include <tl_templates/cuda/threadblock_swizzle.h>
#include <tl_templates/cuda/debug.h>
#ifdef ENABLE_BF16
#include <tl_templates/cuda/cuda_bf16_fallbacks.cuh>
#endif

extern "C" __global__ void steps_kernel(const float* __restrict__ A, float* __restrict__ B);
extern "C" __global__ void steps_kernel_1(const float* __restrict__ B, float* __restrict__ C);
extern "C" __global__ void __launch_bounds__(128, 1) steps_kernel(const float* __restrict__ A, float* __restrict__ B) {
  B[((((int)blockIdx.x) * 128) + ((int)threadIdx.x))] = (A[((((int)blockIdx.x) * 128) + ((int)threadIdx.x))] * 0x1p+1f/*2.000000e+00*/);
}

extern "C" __global__ void __launch_bounds__(256, 1) steps_kernel_1(const float* __restrict__ B, float* __restrict__ C) {
  extern __shared__ __align__(1024) float Bs[];
  Bs[((int)threadIdx.x)] = B[(((((int)blockIdx.x) * 512) + (((int)blockIdx.y) * 256)) + ((int)threadIdx.x))];
  C[(((((int)blockIdx.x) * 512) + (((int)blockIdx.y) * 256)) + ((int)threadIdx.x))] = (Bs[((int)threadIdx.x)] + 0x1p+0f/*1.000000e+00*/);
}

