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
  for (int i_1 = 0; i_1 < 2; ++i_1) {
    float4 __1;
      float4 v_ = *(float4*)(x + (i_1 * 4));
      float4 v__1 = make_float4((mean[0] / 0x1p+11f/*2.048000e+03*/), (mean[0] / 0x1p+11f/*2.048000e+03*/), (mean[0] / 0x1p+11f/*2.048000e+03*/), (mean[0] / 0x1p+11f/*2.048000e+03*/));
      __1.x = (v_.x-v__1.x);
      __1.y = (v_.y-v__1.y);
      __1.z = (v_.z-v__1.z);
      __1.w = (v_.w-v__1.w);
    *(float4*)(x + (i_1 * 4)) = __1;
    float4 __2;
      float4 v__2 = *(float4*)(x + (i_1 * 4));
      __2.x = (v__2.x*v__2.x);
      __2.y = (v__2.y*v__2.y);
      __2.z = (v__2.z*v__2.z);
      __2.w = (v__2.w*v__2.w);
    *(float4*)(square + (i_1 * 4)) = __2;
  }
  var[0] = 0x0p+0f/*0.000000e+00*/;
  #pragma unroll
  for (int rv_1 = 0; rv_1 < 8; ++rv_1) {
    var[0] = (var[0] + square[(((rv_1 & 1) * 4) + (rv_1 >> 1))]);
  }
  __syncthreads();
  var[0] = tl::AllReduce<tl::SumOp, 256, 1, 0, tl::NamedBarrier<256>>::run(var[0], (&(((float*)workspace)[0])));
  #pragma unroll
  for (int i_2 = 0; i_2 < 2; ++i_2) {
    float4 __3;
      float4 v__3 = *(float4*)(x + (i_2 * 4));
      float4 v__4 = make_float4(rsqrtf(((var[0] / 0x1p+11f/*2.048000e+03*/) + 0x1.4f8b588e368f1p-17f/*1.000000e-05*/)), rsqrtf(((var[0] / 0x1p+11f/*2.048000e+03*/) + 0x1.4f8b588e368f1p-17f/*1.000000e-05*/)), rsqrtf(((var[0] / 0x1p+11f/*2.048000e+03*/) + 0x1.4f8b588e368f1p-17f/*1.000000e-05*/)), rsqrtf(((var[0] / 0x1p+11f/*2.048000e+03*/) + 0x1.4f8b588e368f1p-17f/*1.000000e-05*/)));
      __3.x = (v__3.x*v__4.x);
      __3.y = (v__3.y*v__4.y);
      __3.z = (v__3.z*v__4.z);
      __3.w = (v__3.w*v__4.w);
    *(float4*)(x + (i_2 * 4)) = __3;
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

