#if defined(_MSC_VER) && !defined(__clang__) && _MSC_VER < 1940
#define _tl_orig_alignas alignas
#define alignas(N) _tl_orig_alignas((N) <= 64 ? (N) : 64)
#include <cuda.h>
#undef alignas
#define alignas _tl_orig_alignas
#endif
#include <tl_templates/cuda/instruction/mma.h>
#include <tl_templates/cuda/copy.h>
#include <math_constants.h>
#include <tl_templates/cuda/reduce.h>
#include <tl_templates/cuda/scan.h>
#include <tl_templates/cuda/ldsm.h>
#include <tl_templates/cuda/threadblock_swizzle.h>
#include <tl_templates/cuda/debug.h>
#ifdef ENABLE_BF16
#include <tl_templates/cuda/cuda_bf16_fallbacks.cuh>
#endif

extern "C" __global__ void attend_kernel(const half_t* __restrict__ K, half_t* __restrict__ O, const half_t* __restrict__ Q, const half_t* __restrict__ V);
extern "C" __global__ void __launch_bounds__(128, 1) attend_kernel(const half_t* __restrict__ K, half_t* __restrict__ O, const half_t* __restrict__ Q, const half_t* __restrict__ V) {
  extern __shared__ __align__(1024) uchar buf_dyn_shmem[];
  void* Os = ((void*)((char*)buf_dyn_shmem + 0));
  void* Qs = ((void*)((char*)buf_dyn_shmem + 0));
  void* Ks = ((void*)((char*)buf_dyn_shmem + 16384));
  void* Vs = ((void*)((char*)buf_dyn_shmem + 32768));
  float Ol[64];
  float total[4];
  float top[4];
  float S[64];
  float before[4];
  float rescale[4];
  float part[4];
  half_t P[64];
  float top_clear[4];
  float top_clear_1[4];
  float top_clear_2[4];
  #pragma unroll
  for (int i = 0; i < 8; ++i) {
    *(uint4*)(((half_t*)Qs) + (((((i * 1024) + ((((int)threadIdx.x) >> 3) * 64)) + (((((((int)threadIdx.x) & 63) >> 5) + ((((int)threadIdx.x) & 7) >> 2)) & 1) * 32)) + (((((((int)threadIdx.x) & 31) >> 4) + ((((int)threadIdx.x) & 3) >> 1)) & 1) * 16)) + (((((((int)threadIdx.x) & 15) >> 3) + (((int)threadIdx.x) & 1)) & 1) * 8))) = *(uint4*)(Q + (((((((int)blockIdx.x) * 65536) + (i * 8192)) + ((((int)threadIdx.x) >> 3) * 512)) + (((int)blockIdx.y) * 64)) + ((((int)threadIdx.x) & 7) * 8)));
  }
  #pragma unroll
  for (int i_1 = 0; i_1 < 16; ++i_1) {
    float broadcast_var = 0x0p+0f/*0.000000e+00*/;
    *(float4*)(Ol + (i_1 * 4)) = make_float4(broadcast_var, broadcast_var, broadcast_var, broadcast_var);
  }
  float broadcast_var_1 = 0x0p+0f/*0.000000e+00*/;
  *(float4*)(total + 0) = make_float4(broadcast_var_1, broadcast_var_1, broadcast_var_1, broadcast_var_1);
  float broadcast_var_2 = -CUDART_INF_F;
  *(float4*)(top + 0) = make_float4(broadcast_var_2, broadcast_var_2, broadcast_var_2, broadcast_var_2);
  __syncthreads();
  #pragma unroll
  for (int i_2 = 0; i_2 < 4; ++i_2) {
    tl::cp_async_gs<16>((&(((half_t*)Ks)[(((((i_2 * 1024) + ((((int)threadIdx.x) >> 3) * 64)) + (((((((int)threadIdx.x) & 63) >> 5) + ((((int)threadIdx.x) & 7) >> 2)) & 1) * 32)) + (((((((int)threadIdx.x) & 31) >> 4) + ((((int)threadIdx.x) & 3) >> 1)) & 1) * 16)) + (((((((int)threadIdx.x) & 15) >> 3) + (((int)threadIdx.x) & 1)) & 1) * 8))])), (&(K[((((i_2 * 8192) + ((((int)threadIdx.x) >> 3) * 512)) + (((int)blockIdx.y) * 64)) + ((((int)threadIdx.x) & 7) * 8))])));
  }
  tl::cp_async_commit();
  #pragma unroll
  for (int i_3 = 0; i_3 < 4; ++i_3) {
    tl::cp_async_gs<16>((&(((half_t*)Vs)[(((((i_3 * 1024) + ((((int)threadIdx.x) >> 3) * 64)) + (((((((int)threadIdx.x) & 63) >> 5) + ((((int)threadIdx.x) & 7) >> 2)) & 1) * 32)) + (((((((int)threadIdx.x) & 31) >> 4) + ((((int)threadIdx.x) & 3) >> 1)) & 1) * 16)) + (((((((int)threadIdx.x) & 15) >> 3) + (((int)threadIdx.x) & 1)) & 1) * 8))])), (&(V[((((i_3 * 8192) + ((((int)threadIdx.x) >> 3) * 512)) + (((int)blockIdx.y) * 64)) + ((((int)threadIdx.x) & 7) * 8))])));
  }
  tl::cp_async_commit();
  #pragma unroll
  for (int i_4 = 0; i_4 < 4; ++i_4) {
    tl::cp_async_gs<16>((&(((half_t*)Ks)[((((((i_4 * 1024) + ((((int)threadIdx.x) >> 3) * 64)) + (((((((int)threadIdx.x) & 63) >> 5) + ((((int)threadIdx.x) & 7) >> 2)) & 1) * 32)) + (((((((int)threadIdx.x) & 31) >> 4) + ((((int)threadIdx.x) & 3) >> 1)) & 1) * 16)) + (((((((int)threadIdx.x) & 15) >> 3) + (((int)threadIdx.x) & 1)) & 1) * 8)) + 4096)])), (&(K[(((((i_4 * 8192) + ((((int)threadIdx.x) >> 3) * 512)) + (((int)blockIdx.y) * 64)) + ((((int)threadIdx.x) & 7) * 8)) + 32768)])));
  }
  tl::cp_async_commit();
  #pragma unroll
  for (int i_5 = 0; i_5 < 4; ++i_5) {
    tl::cp_async_gs<16>((&(((half_t*)Vs)[((((((i_5 * 1024) + ((((int)threadIdx.x) >> 3) * 64)) + (((((((int)threadIdx.x) & 63) >> 5) + ((((int)threadIdx.x) & 7) >> 2)) & 1) * 32)) + (((((((int)threadIdx.x) & 31) >> 4) + ((((int)threadIdx.x) & 3) >> 1)) & 1) * 16)) + (((((((int)threadIdx.x) & 15) >> 3) + (((int)threadIdx.x) & 1)) & 1) * 8)) + 4096)])), (&(V[(((((i_5 * 8192) + ((((int)threadIdx.x) >> 3) * 512)) + (((int)blockIdx.y) * 64)) + ((((int)threadIdx.x) & 7) * 8)) + 32768)])));
  }
  tl::cp_async_commit();
  for (int k = 0; k < 14; ++k) {
    #pragma unroll
    for (int i_6 = 0; i_6 < 16; ++i_6) {
      float broadcast_var_3 = 0x0p+0f/*0.000000e+00*/;
      *(float4*)(S + (i_6 * 4)) = make_float4(broadcast_var_3, broadcast_var_3, broadcast_var_3, broadcast_var_3);
    }
    tl::cp_async_wait<3>();
    __syncthreads();
    {
      half_t A_local[16];
      half_t B_local[32];
      for (int ki = 0; ki < 4; ++ki) {
        #pragma unroll
        for (int i_7 = 0; i_7 < 2; ++i_7) {
          tl::ptx_ldmatrix_x4((&(((half_t*)Qs)[(((((((int)threadIdx.x) >> 5) * 2048) + (i_7 * 1024)) + (((((int)threadIdx.x) & 15) >> 3) * 512)) + ((((((((int)threadIdx.x) & 15) * 64) + (((((((int)threadIdx.x) & 7) >> 2) + (ki >> 1)) & 1) * 32)) + (((((((int)threadIdx.x) & 3) >> 1) + (ki & 1)) & 1) * 16)) + (((((((int)threadIdx.x) & 31) >> 4) + (((int)threadIdx.x) & 1)) & 1) * 8)) & 511))])), (&(A_local[(i_7 * 8)])));
        }
        #pragma unroll
        for (int i_8 = 0; i_8 < 4; ++i_8) {
          tl::ptx_ldmatrix_x4((&(((half_t*)Ks)[((((((((k & 1) * 4096) + (i_8 * 1024)) + (((((int)threadIdx.x) & 31) >> 4) * 512)) + ((((int)threadIdx.x) & 7) * 64)) + (((((((int)threadIdx.x) & 7) >> 2) + (ki >> 1)) & 1) * 32)) + (((((((int)threadIdx.x) & 3) >> 1) + (ki & 1)) & 1) * 16)) + (((((((int)threadIdx.x) & 15) >> 3) + (((int)threadIdx.x) & 1)) & 1) * 8))])), (&(B_local[(i_8 * 8)])));
        }
        for (int i_9 = 0; i_9 < 2; ++i_9) {
          for (int j = 0; j < 4; ++j) {
            tl::mma_sync<tl::DataType::kFloat16, tl::DataType::kFloat16, tl::DataType::kFloat32, 16, 8, 16, false, true>(reinterpret_cast<float*>(S + ((i_9 * 32) + (j * 8))), reinterpret_cast<const unsigned*>(A_local + (i_9 * 8)), reinterpret_cast<const unsigned*>(B_local + (j * 8)));
            tl::mma_sync<tl::DataType::kFloat16, tl::DataType::kFloat16, tl::DataType::kFloat32, 16, 8, 16, false, true>(reinterpret_cast<float*>(S + (((i_9 * 32) + (j * 8)) + 4)), reinterpret_cast<const unsigned*>(A_local + (i_9 * 8)), reinterpret_cast<const unsigned*>(B_local + ((j * 8) + 4)));
          }
        }
      }
    }
    __syncthreads();
    #pragma unroll
    for (int i_10 = 0; i_10 < 4; ++i_10) {
      tl::cp_async_gs<16>((&(((half_t*)Ks)[(((((((k & 1) * 4096) + (i_10 * 1024)) + ((((int)threadIdx.x) >> 3) * 64)) + (((((((int)threadIdx.x) & 63) >> 5) + ((((int)threadIdx.x) & 7) >> 2)) & 1) * 32)) + (((((((int)threadIdx.x) & 31) >> 4) + ((((int)threadIdx.x) & 3) >> 1)) & 1) * 16)) + (((((((int)threadIdx.x) & 15) >> 3) + (((int)threadIdx.x) & 1)) & 1) * 8))])), (&(K[((((((k * 32768) + (i_10 * 8192)) + ((((int)threadIdx.x) >> 3) * 512)) + (((int)blockIdx.y) * 64)) + ((((int)threadIdx.x) & 7) * 8)) + 65536)])));
    }
    tl::cp_async_commit();
    *(float4*)(before + 0) = *(float4*)(top + 0);
    #pragma unroll
    for (int i_11 = 0; i_11 < 4; ++i_11) {
      top_clear[i_11] = -CUDART_INF_F;
      #pragma unroll
      for (int rv = 0; rv < 16; ++rv) {
        top_clear[i_11] = max(top_clear[i_11], S[(((((i_11 >> 1) * 32) + ((rv & 7) * 4)) + ((i_11 & 1) * 2)) + (rv >> 3))]);
      }
      top_clear[i_11] = tl::AllReduce<tl::MaxOp, 4, 1, 0, tl::NamedBarrier<128>>::run(top_clear[i_11]);
      top[i_11] = max(top[i_11], top_clear[i_11]);
    }
    #pragma unroll
    for (int i_12 = 0; i_12 < 4; ++i_12) {
      rescale[i_12] = exp2f(((before[i_12] * 0x1.7154764ee6c2fp-3f/*1.803369e-01*/) - (top[i_12] * 0x1.7154764ee6c2fp-3f/*1.803369e-01*/)));
    }
    #pragma unroll
    for (int i_13 = 0; i_13 < 64; ++i_13) {
      S[i_13] = exp2f(((S[i_13] * 0x1.7154764ee6c2fp-3f/*1.803369e-01*/) - (top[(((i_13 >> 5) * 2) + ((i_13 & 3) >> 1))] * 0x1.7154764ee6c2fp-3f/*1.803369e-01*/)));
    }
    #pragma unroll
    for (int i_14 = 0; i_14 < 4; ++i_14) {
      part[i_14] = 0x0p+0f/*0.000000e+00*/;
      #pragma unroll
      for (int rv_1 = 0; rv_1 < 16; ++rv_1) {
        part[i_14] = (part[i_14] + S[(((((i_14 >> 1) * 32) + ((rv_1 & 7) * 4)) + ((i_14 & 1) * 2)) + (rv_1 >> 3))]);
      }
      part[i_14] = tl::AllReduce<tl::SumOp, 4, 1, 0, tl::NamedBarrier<128>>::run(part[i_14]);
    }
    #pragma unroll
    for (int i_15 = 0; i_15 < 4; ++i_15) {
      total[i_15] = ((total[i_15] * rescale[i_15]) + part[i_15]);
    }
    #pragma unroll
    for (int i_16 = 0; i_16 < 16; ++i_16) {
      uint2 __1;
      float4 v_ = *(float4*)(S + (((((i_16 & 3) >> 1) * 32) + ((i_16 >> 2) * 8)) + ((i_16 & 1) * 4)));
      ((half2*)(&__1))[0] = __float22half2_rn(((float2*)(&v_))[0]);
      ((half2*)(&__1))[1] = __float22half2_rn(((float2*)(&v_))[1]);
      *(uint2*)(P + (i_16 * 4)) = __1;
    }
    #pragma unroll
    for (int i_17 = 0; i_17 < 64; ++i_17) {
      Ol[i_17] = (Ol[i_17] * rescale[(((i_17 >> 5) * 2) + ((i_17 & 3) >> 1))]);
    }
    tl::cp_async_wait<3>();
    __syncthreads();
    {
      half_t B_local_1[32];
      for (int ki_1 = 0; ki_1 < 4; ++ki_1) {
        #pragma unroll
        for (int i_18 = 0; i_18 < 4; ++i_18) {
          tl::ptx_ldmatrix_x4_trans((&(((half_t*)Vs)[(((((k & 1) * 4096) + (ki_1 * 1024)) + (((((int)threadIdx.x) & 15) >> 3) * 512)) + ((((((((int)threadIdx.x) & 15) * 64) + (((((((int)threadIdx.x) & 7) >> 2) + (i_18 >> 1)) & 1) * 32)) + (((((((int)threadIdx.x) & 3) >> 1) + (i_18 & 1)) & 1) * 16)) + (((((((int)threadIdx.x) & 31) >> 4) + (((int)threadIdx.x) & 1)) & 1) * 8)) & 511))])), (&(B_local_1[(i_18 * 8)])));
        }
        for (int i_19 = 0; i_19 < 2; ++i_19) {
          for (int j_1 = 0; j_1 < 4; ++j_1) {
            tl::mma_sync<tl::DataType::kFloat16, tl::DataType::kFloat16, tl::DataType::kFloat32, 16, 8, 16, false, true>(reinterpret_cast<float*>(Ol + ((i_19 * 32) + (j_1 * 8))), reinterpret_cast<const unsigned*>(P + ((ki_1 * 16) + (i_19 * 8))), reinterpret_cast<const unsigned*>(B_local_1 + (j_1 * 8)));
            tl::mma_sync<tl::DataType::kFloat16, tl::DataType::kFloat16, tl::DataType::kFloat32, 16, 8, 16, false, true>(reinterpret_cast<float*>(Ol + (((i_19 * 32) + (j_1 * 8)) + 4)), reinterpret_cast<const unsigned*>(P + ((ki_1 * 16) + (i_19 * 8))), reinterpret_cast<const unsigned*>(B_local_1 + ((j_1 * 8) + 4)));
          }
        }
      }
    }
    __syncthreads();
    #pragma unroll
    for (int i_20 = 0; i_20 < 4; ++i_20) {
      tl::cp_async_gs<16>((&(((half_t*)Vs)[(((((((k & 1) * 4096) + (i_20 * 1024)) + ((((int)threadIdx.x) >> 3) * 64)) + (((((((int)threadIdx.x) & 63) >> 5) + ((((int)threadIdx.x) & 7) >> 2)) & 1) * 32)) + (((((((int)threadIdx.x) & 31) >> 4) + ((((int)threadIdx.x) & 3) >> 1)) & 1) * 16)) + (((((((int)threadIdx.x) & 15) >> 3) + (((int)threadIdx.x) & 1)) & 1) * 8))])), (&(V[((((((k * 32768) + (i_20 * 8192)) + ((((int)threadIdx.x) >> 3) * 512)) + (((int)blockIdx.y) * 64)) + ((((int)threadIdx.x) & 7) * 8)) + 65536)])));
    }
    tl::cp_async_commit();
  }
  #pragma unroll
  for (int i_21 = 0; i_21 < 16; ++i_21) {
    float broadcast_var_4 = 0x0p+0f/*0.000000e+00*/;
    *(float4*)(S + (i_21 * 4)) = make_float4(broadcast_var_4, broadcast_var_4, broadcast_var_4, broadcast_var_4);
  }
  tl::cp_async_wait<3>();
  __syncthreads();
  {
    half_t A_local_1[16];
    half_t B_local_2[32];
    for (int ki_2 = 0; ki_2 < 4; ++ki_2) {
      #pragma unroll
      for (int i_22 = 0; i_22 < 2; ++i_22) {
        tl::ptx_ldmatrix_x4((&(((half_t*)Qs)[(((((((int)threadIdx.x) >> 5) * 2048) + (i_22 * 1024)) + (((((int)threadIdx.x) & 15) >> 3) * 512)) + ((((((((int)threadIdx.x) & 15) * 64) + (((((((int)threadIdx.x) & 7) >> 2) + (ki_2 >> 1)) & 1) * 32)) + (((((((int)threadIdx.x) & 3) >> 1) + (ki_2 & 1)) & 1) * 16)) + (((((((int)threadIdx.x) & 31) >> 4) + (((int)threadIdx.x) & 1)) & 1) * 8)) & 511))])), (&(A_local_1[(i_22 * 8)])));
      }
      #pragma unroll
      for (int i_23 = 0; i_23 < 4; ++i_23) {
        tl::ptx_ldmatrix_x4((&(((half_t*)Ks)[((((((i_23 * 1024) + (((((int)threadIdx.x) & 31) >> 4) * 512)) + ((((int)threadIdx.x) & 7) * 64)) + (((((((int)threadIdx.x) & 7) >> 2) + (ki_2 >> 1)) & 1) * 32)) + (((((((int)threadIdx.x) & 3) >> 1) + (ki_2 & 1)) & 1) * 16)) + (((((((int)threadIdx.x) & 15) >> 3) + (((int)threadIdx.x) & 1)) & 1) * 8))])), (&(B_local_2[(i_23 * 8)])));
      }
      for (int i_24 = 0; i_24 < 2; ++i_24) {
        for (int j_2 = 0; j_2 < 4; ++j_2) {
          tl::mma_sync<tl::DataType::kFloat16, tl::DataType::kFloat16, tl::DataType::kFloat32, 16, 8, 16, false, true>(reinterpret_cast<float*>(S + ((i_24 * 32) + (j_2 * 8))), reinterpret_cast<const unsigned*>(A_local_1 + (i_24 * 8)), reinterpret_cast<const unsigned*>(B_local_2 + (j_2 * 8)));
          tl::mma_sync<tl::DataType::kFloat16, tl::DataType::kFloat16, tl::DataType::kFloat32, 16, 8, 16, false, true>(reinterpret_cast<float*>(S + (((i_24 * 32) + (j_2 * 8)) + 4)), reinterpret_cast<const unsigned*>(A_local_1 + (i_24 * 8)), reinterpret_cast<const unsigned*>(B_local_2 + ((j_2 * 8) + 4)));
        }
      }
    }
  }
  *(float4*)(before + 0) = *(float4*)(top + 0);
  #pragma unroll
  for (int i_25 = 0; i_25 < 4; ++i_25) {
    top_clear_1[i_25] = -CUDART_INF_F;
    #pragma unroll
    for (int rv_2 = 0; rv_2 < 16; ++rv_2) {
      top_clear_1[i_25] = max(top_clear_1[i_25], S[(((((i_25 >> 1) * 32) + ((rv_2 & 7) * 4)) + ((i_25 & 1) * 2)) + (rv_2 >> 3))]);
    }
    top_clear_1[i_25] = tl::AllReduce<tl::MaxOp, 4, 1, 0, tl::NamedBarrier<128>>::run(top_clear_1[i_25]);
    top[i_25] = max(top[i_25], top_clear_1[i_25]);
  }
  #pragma unroll
  for (int i_26 = 0; i_26 < 4; ++i_26) {
    rescale[i_26] = exp2f(((before[i_26] * 0x1.7154764ee6c2fp-3f/*1.803369e-01*/) - (top[i_26] * 0x1.7154764ee6c2fp-3f/*1.803369e-01*/)));
  }
  #pragma unroll
  for (int i_27 = 0; i_27 < 64; ++i_27) {
    S[i_27] = exp2f(((S[i_27] * 0x1.7154764ee6c2fp-3f/*1.803369e-01*/) - (top[(((i_27 >> 5) * 2) + ((i_27 & 3) >> 1))] * 0x1.7154764ee6c2fp-3f/*1.803369e-01*/)));
  }
  #pragma unroll
  for (int i_28 = 0; i_28 < 4; ++i_28) {
    part[i_28] = 0x0p+0f/*0.000000e+00*/;
    #pragma unroll
    for (int rv_3 = 0; rv_3 < 16; ++rv_3) {
      part[i_28] = (part[i_28] + S[(((((i_28 >> 1) * 32) + ((rv_3 & 7) * 4)) + ((i_28 & 1) * 2)) + (rv_3 >> 3))]);
    }
    part[i_28] = tl::AllReduce<tl::SumOp, 4, 1, 0, tl::NamedBarrier<128>>::run(part[i_28]);
  }
  #pragma unroll
  for (int i_29 = 0; i_29 < 4; ++i_29) {
    total[i_29] = ((total[i_29] * rescale[i_29]) + part[i_29]);
  }
  #pragma unroll
  for (int i_30 = 0; i_30 < 16; ++i_30) {
    uint2 __2;
    float4 v__1 = *(float4*)(S + (((((i_30 & 3) >> 1) * 32) + ((i_30 >> 2) * 8)) + ((i_30 & 1) * 4)));
    ((half2*)(&__2))[0] = __float22half2_rn(((float2*)(&v__1))[0]);
    ((half2*)(&__2))[1] = __float22half2_rn(((float2*)(&v__1))[1]);
    *(uint2*)(P + (i_30 * 4)) = __2;
  }
  #pragma unroll
  for (int i_31 = 0; i_31 < 64; ++i_31) {
    Ol[i_31] = (Ol[i_31] * rescale[(((i_31 >> 5) * 2) + ((i_31 & 3) >> 1))]);
  }
  tl::cp_async_wait<2>();
  __syncthreads();
  {
    half_t B_local_3[32];
    for (int ki_3 = 0; ki_3 < 4; ++ki_3) {
      #pragma unroll
      for (int i_32 = 0; i_32 < 4; ++i_32) {
        tl::ptx_ldmatrix_x4_trans((&(((half_t*)Vs)[(((ki_3 * 1024) + (((((int)threadIdx.x) & 15) >> 3) * 512)) + ((((((((int)threadIdx.x) & 15) * 64) + (((((((int)threadIdx.x) & 7) >> 2) + (i_32 >> 1)) & 1) * 32)) + (((((((int)threadIdx.x) & 3) >> 1) + (i_32 & 1)) & 1) * 16)) + (((((((int)threadIdx.x) & 31) >> 4) + (((int)threadIdx.x) & 1)) & 1) * 8)) & 511))])), (&(B_local_3[(i_32 * 8)])));
      }
      for (int i_33 = 0; i_33 < 2; ++i_33) {
        for (int j_3 = 0; j_3 < 4; ++j_3) {
          tl::mma_sync<tl::DataType::kFloat16, tl::DataType::kFloat16, tl::DataType::kFloat32, 16, 8, 16, false, true>(reinterpret_cast<float*>(Ol + ((i_33 * 32) + (j_3 * 8))), reinterpret_cast<const unsigned*>(P + ((ki_3 * 16) + (i_33 * 8))), reinterpret_cast<const unsigned*>(B_local_3 + (j_3 * 8)));
          tl::mma_sync<tl::DataType::kFloat16, tl::DataType::kFloat16, tl::DataType::kFloat32, 16, 8, 16, false, true>(reinterpret_cast<float*>(Ol + (((i_33 * 32) + (j_3 * 8)) + 4)), reinterpret_cast<const unsigned*>(P + ((ki_3 * 16) + (i_33 * 8))), reinterpret_cast<const unsigned*>(B_local_3 + ((j_3 * 8) + 4)));
        }
      }
    }
  }
  #pragma unroll
  for (int i_34 = 0; i_34 < 16; ++i_34) {
    float broadcast_var_5 = 0x0p+0f/*0.000000e+00*/;
    *(float4*)(S + (i_34 * 4)) = make_float4(broadcast_var_5, broadcast_var_5, broadcast_var_5, broadcast_var_5);
  }
  tl::cp_async_wait<1>();
  __syncthreads();
  {
    half_t A_local_2[16];
    half_t B_local_4[32];
    for (int ki_4 = 0; ki_4 < 4; ++ki_4) {
      #pragma unroll
      for (int i_35 = 0; i_35 < 2; ++i_35) {
        tl::ptx_ldmatrix_x4((&(((half_t*)Qs)[(((((((int)threadIdx.x) >> 5) * 2048) + (i_35 * 1024)) + (((((int)threadIdx.x) & 15) >> 3) * 512)) + ((((((((int)threadIdx.x) & 15) * 64) + (((((((int)threadIdx.x) & 7) >> 2) + (ki_4 >> 1)) & 1) * 32)) + (((((((int)threadIdx.x) & 3) >> 1) + (ki_4 & 1)) & 1) * 16)) + (((((((int)threadIdx.x) & 31) >> 4) + (((int)threadIdx.x) & 1)) & 1) * 8)) & 511))])), (&(A_local_2[(i_35 * 8)])));
      }
      #pragma unroll
      for (int i_36 = 0; i_36 < 4; ++i_36) {
        tl::ptx_ldmatrix_x4((&(((half_t*)Ks)[(((((((i_36 * 1024) + (((((int)threadIdx.x) & 31) >> 4) * 512)) + ((((int)threadIdx.x) & 7) * 64)) + (((((((int)threadIdx.x) & 7) >> 2) + (ki_4 >> 1)) & 1) * 32)) + (((((((int)threadIdx.x) & 3) >> 1) + (ki_4 & 1)) & 1) * 16)) + (((((((int)threadIdx.x) & 15) >> 3) + (((int)threadIdx.x) & 1)) & 1) * 8)) + 4096)])), (&(B_local_4[(i_36 * 8)])));
      }
      for (int i_37 = 0; i_37 < 2; ++i_37) {
        for (int j_4 = 0; j_4 < 4; ++j_4) {
          tl::mma_sync<tl::DataType::kFloat16, tl::DataType::kFloat16, tl::DataType::kFloat32, 16, 8, 16, false, true>(reinterpret_cast<float*>(S + ((i_37 * 32) + (j_4 * 8))), reinterpret_cast<const unsigned*>(A_local_2 + (i_37 * 8)), reinterpret_cast<const unsigned*>(B_local_4 + (j_4 * 8)));
          tl::mma_sync<tl::DataType::kFloat16, tl::DataType::kFloat16, tl::DataType::kFloat32, 16, 8, 16, false, true>(reinterpret_cast<float*>(S + (((i_37 * 32) + (j_4 * 8)) + 4)), reinterpret_cast<const unsigned*>(A_local_2 + (i_37 * 8)), reinterpret_cast<const unsigned*>(B_local_4 + ((j_4 * 8) + 4)));
        }
      }
    }
  }
  *(float4*)(before + 0) = *(float4*)(top + 0);
  #pragma unroll
  for (int i_38 = 0; i_38 < 4; ++i_38) {
    top_clear_2[i_38] = -CUDART_INF_F;
    #pragma unroll
    for (int rv_4 = 0; rv_4 < 16; ++rv_4) {
      top_clear_2[i_38] = max(top_clear_2[i_38], S[(((((i_38 >> 1) * 32) + ((rv_4 & 7) * 4)) + ((i_38 & 1) * 2)) + (rv_4 >> 3))]);
    }
    top_clear_2[i_38] = tl::AllReduce<tl::MaxOp, 4, 1, 0, tl::NamedBarrier<128>>::run(top_clear_2[i_38]);
    top[i_38] = max(top[i_38], top_clear_2[i_38]);
  }
  #pragma unroll
  for (int i_39 = 0; i_39 < 4; ++i_39) {
    rescale[i_39] = exp2f(((before[i_39] * 0x1.7154764ee6c2fp-3f/*1.803369e-01*/) - (top[i_39] * 0x1.7154764ee6c2fp-3f/*1.803369e-01*/)));
  }
  #pragma unroll
  for (int i_40 = 0; i_40 < 64; ++i_40) {
    S[i_40] = exp2f(((S[i_40] * 0x1.7154764ee6c2fp-3f/*1.803369e-01*/) - (top[(((i_40 >> 5) * 2) + ((i_40 & 3) >> 1))] * 0x1.7154764ee6c2fp-3f/*1.803369e-01*/)));
  }
  #pragma unroll
  for (int i_41 = 0; i_41 < 4; ++i_41) {
    part[i_41] = 0x0p+0f/*0.000000e+00*/;
    #pragma unroll
    for (int rv_5 = 0; rv_5 < 16; ++rv_5) {
      part[i_41] = (part[i_41] + S[(((((i_41 >> 1) * 32) + ((rv_5 & 7) * 4)) + ((i_41 & 1) * 2)) + (rv_5 >> 3))]);
    }
    part[i_41] = tl::AllReduce<tl::SumOp, 4, 1, 0, tl::NamedBarrier<128>>::run(part[i_41]);
  }
  #pragma unroll
  for (int i_42 = 0; i_42 < 4; ++i_42) {
    total[i_42] = ((total[i_42] * rescale[i_42]) + part[i_42]);
  }
  #pragma unroll
  for (int i_43 = 0; i_43 < 16; ++i_43) {
    uint2 __3;
    float4 v__2 = *(float4*)(S + (((((i_43 & 3) >> 1) * 32) + ((i_43 >> 2) * 8)) + ((i_43 & 1) * 4)));
    ((half2*)(&__3))[0] = __float22half2_rn(((float2*)(&v__2))[0]);
    ((half2*)(&__3))[1] = __float22half2_rn(((float2*)(&v__2))[1]);
    *(uint2*)(P + (i_43 * 4)) = __3;
  }
  #pragma unroll
  for (int i_44 = 0; i_44 < 64; ++i_44) {
    Ol[i_44] = (Ol[i_44] * rescale[(((i_44 >> 5) * 2) + ((i_44 & 3) >> 1))]);
  }
  tl::cp_async_wait<0>();
  __syncthreads();
  {
    half_t B_local_5[32];
    for (int ki_5 = 0; ki_5 < 4; ++ki_5) {
      #pragma unroll
      for (int i_45 = 0; i_45 < 4; ++i_45) {
        tl::ptx_ldmatrix_x4_trans((&(((half_t*)Vs)[((((ki_5 * 1024) + (((((int)threadIdx.x) & 15) >> 3) * 512)) + ((((((((int)threadIdx.x) & 15) * 64) + (((((((int)threadIdx.x) & 7) >> 2) + (i_45 >> 1)) & 1) * 32)) + (((((((int)threadIdx.x) & 3) >> 1) + (i_45 & 1)) & 1) * 16)) + (((((((int)threadIdx.x) & 31) >> 4) + (((int)threadIdx.x) & 1)) & 1) * 8)) & 511)) + 4096)])), (&(B_local_5[(i_45 * 8)])));
      }
      for (int i_46 = 0; i_46 < 2; ++i_46) {
        for (int j_5 = 0; j_5 < 4; ++j_5) {
          tl::mma_sync<tl::DataType::kFloat16, tl::DataType::kFloat16, tl::DataType::kFloat32, 16, 8, 16, false, true>(reinterpret_cast<float*>(Ol + ((i_46 * 32) + (j_5 * 8))), reinterpret_cast<const unsigned*>(P + ((ki_5 * 16) + (i_46 * 8))), reinterpret_cast<const unsigned*>(B_local_5 + (j_5 * 8)));
          tl::mma_sync<tl::DataType::kFloat16, tl::DataType::kFloat16, tl::DataType::kFloat32, 16, 8, 16, false, true>(reinterpret_cast<float*>(Ol + (((i_46 * 32) + (j_5 * 8)) + 4)), reinterpret_cast<const unsigned*>(P + ((ki_5 * 16) + (i_46 * 8))), reinterpret_cast<const unsigned*>(B_local_5 + ((j_5 * 8) + 4)));
        }
      }
    }
  }
  #pragma unroll
  for (int i_47 = 0; i_47 < 64; ++i_47) {
    Ol[i_47] = (Ol[i_47] / total[(((i_47 >> 5) * 2) + ((i_47 & 3) >> 1))]);
  }
  __syncthreads();
  #pragma unroll
  for (int i_48 = 0; i_48 < 32; ++i_48) {
    half_t Os_local_cast[2];
    uint1 __4;
    float2 v__3 = *(float2*)(Ol + (i_48 * 2));
    ((half2*)(&__4))[0] = __float22half2_rn(((float2*)(&v__3))[0]);
    *(uint1*)(Os_local_cast + 0) = __4;
    *(uint1*)(((half_t*)Os) + (((((((((int)threadIdx.x) >> 5) * 2048) + ((i_48 >> 4) * 1024)) + ((i_48 & 1) * 512)) + (((((int)threadIdx.x) & 31) >> 2) * 64)) + (((i_48 & 15) >> 1) * 8)) + ((((int)threadIdx.x) & 3) * 2))) = *(uint1*)(Os_local_cast + 0);
  }
  __syncthreads();
  #pragma unroll
  for (int i_49 = 0; i_49 < 8; ++i_49) {
    *(uint4*)(O + (((((((int)blockIdx.x) * 65536) + (i_49 * 8192)) + ((((int)threadIdx.x) >> 3) * 512)) + (((int)blockIdx.y) * 64)) + ((((int)threadIdx.x) & 7) * 8))) = *(uint4*)(((half_t*)Os) + ((i_49 * 1024) + (((int)threadIdx.x) * 8)));
  }
}

