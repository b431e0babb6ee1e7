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

extern "C" __global__ void norm_kernel(float* __restrict__ Mean, float* __restrict__ Rstd, const float* __restrict__ X, float* __restrict__ Y);
extern "C" __global__ void __launch_bounds__(256, 1) norm_kernel(float* __restrict__ Mean, float* __restrict__ Rstd, const float* __restrict__ X, float* __restrict__ Y) {
  extern __shared__ __align__(1024) uchar buf_dyn_shmem[];
  void* workspace = ((void*)((char*)buf_dyn_shmem + 0));
  void* workspace_1 = ((void*)((char*)buf_dyn_shmem + 0));
  float x[8];
  float mean[1];
  float square[8];
  float var[1];
  #pragma unroll
  for (int i = 0; i < 2; ++i) {
    *(float4*)(x + (i * 4)) = *(float4*)(X + (((((int)blockIdx.x) * 2048) + (i * 1024)) + (((int)threadIdx.x) * 4)));
  }
  mean[0] = 0x0p+0f/*0.000000e+00*/;
  #pragma unroll
  for (int rv = 0; rv < 8; ++rv) {
    mean[0] = (mean[0] + x[(((rv & 1) * 4) + (rv >> 1))]);
  }
  mean[0] = tl::AllReduce<tl::SumOp, 256, 1, 0, tl::NamedBarrier<256>>::run(mean[0], (&(((float*)workspace_1)[0])));
  #pragma unroll
  for (int i_1 = 0; i_1 < 8; ++i_1) {
    x[i_1] = (x[i_1] - (mean[0] / 0x1p+11f/*2.048000e+03*/));
    square[i_1] = (x[i_1] * x[i_1]);
  }
  var[0] = 0x0p+0f/*0.000000e+00*/;
  #pragma unroll
  for (int rv_1 = 0; rv_1 < 8; ++rv_1) {
    var[0] = (var[0] + square[(((rv_1 & 1) * 4) + (rv_1 >> 1))]);
  }
  __syncthreads();
  var[0] = tl::AllReduce<tl::SumOp, 256, 1, 0, tl::NamedBarrier<256>>::run(var[0], (&(((float*)workspace)[0])));
  #pragma unroll
  for (int i_2 = 0; i_2 < 8; ++i_2) {
    x[i_2] = (x[i_2] * rsqrtf(((var[0] / 0x1p+11f/*2.048000e+03*/) + 0x1.4f8b588e368f1p-17f/*1.000000e-05*/)));
  }
  #pragma unroll
  for (int i_3 = 0; i_3 < 2; ++i_3) {
    *(float4*)(Y + (((((int)blockIdx.x) * 2048) + (i_3 * 1024)) + (((int)threadIdx.x) * 4))) = *(float4*)(x + (i_3 * 4));
  }
  if (((int)threadIdx.x) == 0) {
    Mean[((int)blockIdx.x)] = (mean[0] / 0x1p+11f/*2.048000e+03*/);
    Rstd[((int)blockIdx.x)] = rsqrtf(((var[0] / 0x1p+11f/*2.048000e+03*/) + 0x1.4f8b588e368f1p-17f/*1.000000e-05*/));
  }
}

