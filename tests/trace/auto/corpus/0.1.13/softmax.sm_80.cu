#if defined(_MSC_VER) && !defined(__clang__) && _MSC_VER < 1940
#define _tl_orig_alignas alignas
#define alignas(N) _tl_orig_alignas((N) <= 64 ? (N) : 64)
#include <cuda.h>
#undef alignas
#define alignas _tl_orig_alignas
#endif
#include <math_constants.h>
#include <tl_templates/cuda/reduce.h>
#include <tl_templates/cuda/scan.h>
#include <tl_templates/cuda/ldsm.h>
#include <tl_templates/cuda/threadblock_swizzle.h>
#include <tl_templates/cuda/debug.h>
#ifdef ENABLE_BF16
#include <tl_templates/cuda/cuda_bf16_fallbacks.cuh>
#endif

extern "C" __global__ void soft_kernel(const float* __restrict__ A, float* __restrict__ B);
extern "C" __global__ void __launch_bounds__(128, 1) soft_kernel(const float* __restrict__ A, float* __restrict__ B) {
  extern __shared__ __align__(1024) uchar buf_dyn_shmem[];
  void* workspace = ((void*)((char*)buf_dyn_shmem + 0));
  void* workspace_1 = ((void*)((char*)buf_dyn_shmem + 0));
  float x[32];
  float top[4];
  float total[4];
  #pragma unroll
  for (int i = 0; i < 8; ++i) {
    *(float4*)(x + (i * 4)) = *(float4*)(A + (((((int)blockIdx.x) * 4096) + (i * 512)) + (((int)threadIdx.x) * 4)));
  }
  #pragma unroll
  for (int i_1 = 0; i_1 < 4; ++i_1) {
    top[i_1] = -CUDART_INF_F;
    #pragma unroll
    for (int rv = 0; rv < 8; ++rv) {
      top[i_1] = max(top[i_1], x[(((i_1 * 8) + ((rv & 1) * 4)) + (rv >> 1))]);
    }
    __syncthreads();
    top[i_1] = tl::AllReduce<tl::MaxOp, 128, 1, 0, tl::NamedBarrier<128>>::run(top[i_1], (&(((float*)workspace_1)[0])));
  }
  #pragma unroll
  for (int i_2 = 0; i_2 < 32; ++i_2) {
    x[i_2] = expf((x[i_2] - top[(i_2 >> 3)]));
  }
  #pragma unroll
  for (int i_3 = 0; i_3 < 4; ++i_3) {
    total[i_3] = 0x0p+0f/*0.000000e+00*/;
    #pragma unroll
    for (int rv_1 = 0; rv_1 < 8; ++rv_1) {
      total[i_3] = (total[i_3] + x[(((i_3 * 8) + ((rv_1 & 1) * 4)) + (rv_1 >> 1))]);
    }
    __syncthreads();
    total[i_3] = tl::AllReduce<tl::SumOp, 128, 1, 0, tl::NamedBarrier<128>>::run(total[i_3], (&(((float*)workspace)[0])));
  }
  #pragma unroll
  for (int i_4 = 0; i_4 < 32; ++i_4) {
    x[i_4] = (x[i_4] / total[(i_4 >> 3)]);
  }
  #pragma unroll
  for (int i_5 = 0; i_5 < 8; ++i_5) {
    *(float4*)(B + (((((int)blockIdx.x) * 4096) + (i_5 * 512)) + (((int)threadIdx.x) * 4))) = *(float4*)(x + (i_5 * 4));
  }
}

