#if defined(_MSC_VER) && !defined(__clang__) && _MSC_VER < 1940
#define _tl_orig_alignas alignas
#define alignas(N) _tl_orig_alignas((N) <= 64 ? (N) : 64)
#include <cuda.h>
#undef alignas
#define alignas _tl_orig_alignas
#endif
#include <tl_templates/cuda/copy_sm90.h>
#include <tl_templates/cuda/copy_sm100.h>
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
  float2 top_pack[4];
  float top[4];
  float2 total_pack[4];
  float total[4];
  #pragma unroll
  for (int i = 0; i < 4; ++i) {
    *(ulonglong4*)(x + (i * 8)) = tl::load_global_256(&(*(ulonglong4*)(A + (((((int)blockIdx.x) * 4096) + (i * 1024)) + (((int)threadIdx.x) * 8)))));
  }
  #pragma unroll
  for (int i_1 = 0; i_1 < 4; ++i_1) {
    float broadcast_var = -CUDART_INF_F;
    top_pack[i_1] = make_float2(broadcast_var, broadcast_var);
    #pragma unroll
    for (int rv = 0; rv < 4; ++rv) {
      top_pack[i_1] = tl::max2(top_pack[i_1], *(float2*)(x + ((i_1 * 8) + (rv * 2))));
    }
    top[i_1] = max((top_pack[i_1]).x, (top_pack[i_1]).y);
    __syncthreads();
    top[i_1] = tl::AllReduce<tl::MaxOp, 128, 1, 0, tl::NamedBarrier<128>>::run(top[i_1], (&(((float*)workspace_1)[0])));
  }
  #pragma unroll
  for (int i_2 = 0; i_2 < 32; ++i_2) {
    x[i_2] = expf((x[i_2] - top[(i_2 >> 3)]));
  }
  #pragma unroll
  for (int i_3 = 0; i_3 < 4; ++i_3) {
    float broadcast_var_1 = 0x0p+0f/*0.000000e+00*/;
    total_pack[i_3] = make_float2(broadcast_var_1, broadcast_var_1);
    #pragma unroll
    for (int rv_1 = 0; rv_1 < 4; ++rv_1) {
      total_pack[i_3] = tl::add2(total_pack[i_3], *(float2*)(x + ((i_3 * 8) + (rv_1 * 2))));
    }
    total[i_3] = ((total_pack[i_3]).x + (total_pack[i_3]).y);
    __syncthreads();
    total[i_3] = tl::AllReduce<tl::SumOp, 128, 1, 0, tl::NamedBarrier<128>>::run(total[i_3], (&(((float*)workspace)[0])));
  }
  #pragma unroll
  for (int i_4 = 0; i_4 < 32; ++i_4) {
    x[i_4] = (x[i_4] / total[(i_4 >> 3)]);
  }
  #pragma unroll
  for (int i_5 = 0; i_5 < 4; ++i_5) {
    tl::store_global_256(&(*(ulonglong4*)(B + (((((int)blockIdx.x) * 4096) + (i_5 * 1024)) + (((int)threadIdx.x) * 8)))), *(ulonglong4*)(x + (i_5 * 8)));
  }
}

