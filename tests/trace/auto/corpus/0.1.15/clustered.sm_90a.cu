#if defined(_MSC_VER) && !defined(__clang__) && _MSC_VER < 1940
#define _tl_orig_alignas alignas
#define alignas(N) _tl_orig_alignas((N) <= 64 ? (N) : 64)
#include <cuda.h>
#undef alignas
#define alignas _tl_orig_alignas
#endif
#include <tl_templates/cuda/cluster.h>
#include <tl_templates/cuda/reduce.h>
#include <tl_templates/cuda/scan.h>
#include <tl_templates/cuda/ldsm.h>
#include <tl_templates/cuda/threadblock_swizzle.h>
#include <tl_templates/cuda/debug.h>
#ifdef ENABLE_BF16
#include <tl_templates/cuda/cuda_bf16_fallbacks.cuh>
#endif

extern "C" __global__ void copy_kernel(const float* __restrict__ A, float* __restrict__ B);
extern "C" __global__ void __launch_bounds__(64, 1) copy_kernel(const float* __restrict__ A, float* __restrict__ B) {
  const dim3 blockIdx = tl::rasterization2DRowWithCluster<2, 2>();
  tl::cluster_sync();
  if (((int)threadIdx.x) < 32) {
    B[(((((int)blockIdx.x) * 64) + (((int)blockIdx.y) * 32)) + ((int)threadIdx.x))] = A[(((((int)blockIdx.x) * 64) + (((int)blockIdx.y) * 32)) + ((int)threadIdx.x))];
  }
}

