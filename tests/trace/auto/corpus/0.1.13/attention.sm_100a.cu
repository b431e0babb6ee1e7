#if defined(_MSC_VER) && !defined(__clang__) && _MSC_VER < 1940
#define _tl_orig_alignas alignas
#define alignas(N) _tl_orig_alignas((N) <= 64 ? (N) : 64)
#include <cuda.h>
#undef alignas
#define alignas _tl_orig_alignas
#endif
#include <tl_templates/cuda/instruction/mma.h>
#include <tl_templates/cuda/intrin.h>
#include <tl_templates/cuda/barrier.h>
#include <tl_templates/cuda/copy_sm90.h>
#include <math_constants.h>
#include <tl_templates/cuda/reduce.h>
#include <tl_templates/cuda/scan.h>
#include <tl_templates/cuda/ldsm.h>
#include <tl_templates/cuda/threadblock_swizzle.h>
#include <tl_templates/cuda/debug.h>
#ifdef ENABLE_BF16
#include <tl_templates/cuda/cuda_bf16_fallbacks.cuh>
#endif

extern "C" __global__ void attend_kernel(__grid_constant__ const CUtensorMap K_desc, __grid_constant__ const CUtensorMap O_desc, __grid_constant__ const CUtensorMap Q_desc, __grid_constant__ const CUtensorMap V_desc);
extern "C" __global__ void __launch_bounds__(256, 1) attend_kernel(__grid_constant__ const CUtensorMap K_desc, __grid_constant__ const CUtensorMap O_desc, __grid_constant__ const CUtensorMap Q_desc, __grid_constant__ const CUtensorMap V_desc) {
  extern __shared__ __align__(1024) uchar buf_dyn_shmem[];
  void* Os = ((void*)((char*)buf_dyn_shmem + 0));
  void* Qs = ((void*)((char*)buf_dyn_shmem + 0));
  void* Ks = ((void*)((char*)buf_dyn_shmem + 16384));
  void* Vs = ((void*)((char*)buf_dyn_shmem + 32768));
  __shared__ __align__(16) uint64_t mbarrier_mem[9];
  auto mbarrier = reinterpret_cast<Barrier*>(mbarrier_mem);
  float Ol[64];
  float total[4];
  float top[4];
  float S[64];
  float before[4];
  float top_clear[4];
  float rescale[4];
  float part[4];
  half_t P[64];
  if (tl::tl_shuffle_elect<0>()) {
    tl::prefetch_tma_descriptor(Q_desc);
    tl::prefetch_tma_descriptor(K_desc);
    tl::prefetch_tma_descriptor(V_desc);
    tl::prefetch_tma_descriptor(O_desc);
  }
  if (tl::tl_shuffle_elect<0>()) {
    mbarrier[0].init(1);
    mbarrier[1].init(1);
    mbarrier[2].init(1);
    mbarrier[3].init(1);
    mbarrier[4].init(128);
    mbarrier[5].init(128);
    mbarrier[6].init(128);
    mbarrier[7].init(128);
    mbarrier[8].init(1);
  }
  tl::fence_barrier_init();
  __syncthreads();
  if (tl::tl_shuffle_elect<256>()) {
    mbarrier[8].arrive_and_expect_tx(16384);
    tl::tma_load(Q_desc, mbarrier[8], (&(((half_t*)Qs)[0])), 0, (((int)blockIdx.x) * 128), ((int)blockIdx.y), 0);
  }
  __syncthreads();
  if (((int)threadIdx.x) < 128) {
    tl::warpgroup_reg_dealloc<24>();
    for (int k = 0; k < 16; ++k) {
      mbarrier[((k & 1) + 4)].wait((((k & 3) >> 1) ^ 1));
      if (tl::tl_shuffle_elect<128>()) {
        mbarrier[(k & 1)].arrive_and_expect_tx(8192);
        tl::tma_load(K_desc, mbarrier[(k & 1)], (&(((half_t*)Ks)[((k & 1) * 4096)])), 0, (k * 64), ((int)blockIdx.y), 0);
      }
      mbarrier[((k & 1) + 6)].wait((((k & 3) >> 1) ^ 1));
      if (tl::tl_shuffle_elect<128>()) {
        mbarrier[((k & 1) + 2)].arrive_and_expect_tx(8192);
        tl::tma_load(V_desc, mbarrier[((k & 1) + 2)], (&(((half_t*)Vs)[((k & 1) * 4096)])), 0, (k * 64), ((int)blockIdx.y), 0);
      }
    }
  } else {
    tl::warpgroup_reg_alloc<240>();
    #pragma unroll
    for (int i = 0; i < 16; ++i) {
      float broadcast_var = 0x0p+0f/*0.000000e+00*/;
      *(float4*)(Ol + (i * 4)) = make_float4(broadcast_var, broadcast_var, broadcast_var, broadcast_var);
    }
    float broadcast_var_1 = 0x0p+0f/*0.000000e+00*/;
    *(float4*)(total + 0) = make_float4(broadcast_var_1, broadcast_var_1, broadcast_var_1, broadcast_var_1);
    float broadcast_var_2 = -CUDART_INF_F;
    *(float4*)(top + 0) = make_float4(broadcast_var_2, broadcast_var_2, broadcast_var_2, broadcast_var_2);
    for (int k_1 = 0; k_1 < 16; ++k_1) {
      #pragma unroll
      for (int i_1 = 0; i_1 < 16; ++i_1) {
        float broadcast_var_3 = 0x0p+0f/*0.000000e+00*/;
        *(float4*)(S + (i_1 * 4)) = make_float4(broadcast_var_3, broadcast_var_3, broadcast_var_3, broadcast_var_3);
      }
      if (k_1 == 0) {
        mbarrier[8].wait(0);
      }
      mbarrier[(k_1 & 1)].wait(((k_1 & 3) >> 1));
      {
        half_t A_local[16];
        half_t B_local[32];
        for (int ki = 0; ki < 4; ++ki) {
          #pragma unroll
          for (int i_2 = 0; i_2 < 2; ++i_2) {
            tl::ptx_ldmatrix_x4((&(((half_t*)Qs)[((((((((int)threadIdx.x) & 127) >> 5) * 2048) + (i_2 * 1024)) + (((((int)threadIdx.x) & 15) >> 3) * 512)) + ((((((((int)threadIdx.x) & 15) * 64) + (((((((int)threadIdx.x) & 7) >> 2) + (ki >> 1)) & 1) * 32)) + (((((((int)threadIdx.x) & 3) >> 1) + (ki & 1)) & 1) * 16)) + (((((((int)threadIdx.x) & 31) >> 4) + (((int)threadIdx.x) & 1)) & 1) * 8)) & 511))])), (&(A_local[(i_2 * 8)])));
          }
          #pragma unroll
          for (int i_3 = 0; i_3 < 4; ++i_3) {
            tl::ptx_ldmatrix_x4((&(((half_t*)Ks)[((((((((k_1 & 1) * 4096) + (i_3 * 1024)) + (((((int)threadIdx.x) & 31) >> 4) * 512)) + ((((int)threadIdx.x) & 7) * 64)) + (((((((int)threadIdx.x) & 7) >> 2) + (ki >> 1)) & 1) * 32)) + (((((((int)threadIdx.x) & 3) >> 1) + (ki & 1)) & 1) * 16)) + (((((((int)threadIdx.x) & 15) >> 3) + (((int)threadIdx.x) & 1)) & 1) * 8))])), (&(B_local[(i_3 * 8)])));
          }
          for (int i_4 = 0; i_4 < 2; ++i_4) {
            for (int j = 0; j < 4; ++j) {
              tl::mma_sync<tl::DataType::kFloat16, tl::DataType::kFloat16, tl::DataType::kFloat32, 16, 8, 16, false, true>(reinterpret_cast<float*>(S + ((i_4 * 32) + (j * 8))), reinterpret_cast<const unsigned*>(A_local + (i_4 * 8)), reinterpret_cast<const unsigned*>(B_local + (j * 8)));
              tl::mma_sync<tl::DataType::kFloat16, tl::DataType::kFloat16, tl::DataType::kFloat32, 16, 8, 16, false, true>(reinterpret_cast<float*>(S + (((i_4 * 32) + (j * 8)) + 4)), reinterpret_cast<const unsigned*>(A_local + (i_4 * 8)), reinterpret_cast<const unsigned*>(B_local + ((j * 8) + 4)));
            }
          }
        }
      }
      mbarrier[((k_1 & 1) + 4)].arrive();
      *(float4*)(before + 0) = *(float4*)(top + 0);
      #pragma unroll
      for (int i_5 = 0; i_5 < 4; ++i_5) {
        top_clear[i_5] = -CUDART_INF_F;
        #pragma unroll
        for (int rv = 0; rv < 16; ++rv) {
          top_clear[i_5] = max(top_clear[i_5], S[(((((i_5 >> 1) * 32) + ((rv & 7) * 4)) + ((i_5 & 1) * 2)) + (rv >> 3))]);
        }
        top_clear[i_5] = tl::AllReduce<tl::MaxOp, 4, 1, 128, tl::NamedBarrier<128>>::run(top_clear[i_5]);
        top[i_5] = max(top[i_5], top_clear[i_5]);
      }
      #pragma unroll
      for (int i_6 = 0; i_6 < 4; ++i_6) {
        rescale[i_6] = exp2f(((before[i_6] * 0x1.7154764ee6c2fp-3f/*1.803369e-01*/) - (top[i_6] * 0x1.7154764ee6c2fp-3f/*1.803369e-01*/)));
      }
      #pragma unroll
      for (int i_7 = 0; i_7 < 64; ++i_7) {
        S[i_7] = exp2f(((S[i_7] * 0x1.7154764ee6c2fp-3f/*1.803369e-01*/) - (top[(((i_7 >> 5) * 2) + ((i_7 & 3) >> 1))] * 0x1.7154764ee6c2fp-3f/*1.803369e-01*/)));
      }
      #pragma unroll
      for (int i_8 = 0; i_8 < 4; ++i_8) {
        part[i_8] = 0x0p+0f/*0.000000e+00*/;
        #pragma unroll
        for (int rv_1 = 0; rv_1 < 16; ++rv_1) {
          part[i_8] = (part[i_8] + S[(((((i_8 >> 1) * 32) + ((rv_1 & 7) * 4)) + ((i_8 & 1) * 2)) + (rv_1 >> 3))]);
        }
        part[i_8] = tl::AllReduce<tl::SumOp, 4, 1, 128, tl::NamedBarrier<128>>::run(part[i_8]);
      }
      #pragma unroll
      for (int i_9 = 0; i_9 < 4; ++i_9) {
        total[i_9] = ((total[i_9] * rescale[i_9]) + part[i_9]);
      }
      #pragma unroll
      for (int i_10 = 0; i_10 < 16; ++i_10) {
        uint2 __1;
        float4 v_ = *(float4*)(S + (((((i_10 & 3) >> 1) * 32) + ((i_10 >> 2) * 8)) + ((i_10 & 1) * 4)));
        ((half2*)(&__1))[0] = __float22half2_rn(((float2*)(&v_))[0]);
        ((half2*)(&__1))[1] = __float22half2_rn(((float2*)(&v_))[1]);
        *(uint2*)(P + (i_10 * 4)) = __1;
      }
      #pragma unroll
      for (int i_11 = 0; i_11 < 64; ++i_11) {
        Ol[i_11] = (Ol[i_11] * rescale[(((i_11 >> 5) * 2) + ((i_11 & 3) >> 1))]);
      }
      mbarrier[((k_1 & 1) + 2)].wait(((k_1 & 3) >> 1));
      {
        half_t B_local_1[32];
        for (int ki_1 = 0; ki_1 < 4; ++ki_1) {
          #pragma unroll
          for (int i_12 = 0; i_12 < 4; ++i_12) {
            tl::ptx_ldmatrix_x4_trans((&(((half_t*)Vs)[(((((k_1 & 1) * 4096) + (ki_1 * 1024)) + (((((int)threadIdx.x) & 15) >> 3) * 512)) + ((((((((int)threadIdx.x) & 15) * 64) + (((((((int)threadIdx.x) & 7) >> 2) + (i_12 >> 1)) & 1) * 32)) + (((((((int)threadIdx.x) & 3) >> 1) + (i_12 & 1)) & 1) * 16)) + (((((((int)threadIdx.x) & 31) >> 4) + (((int)threadIdx.x) & 1)) & 1) * 8)) & 511))])), (&(B_local_1[(i_12 * 8)])));
          }
          for (int i_13 = 0; i_13 < 2; ++i_13) {
            for (int j_1 = 0; j_1 < 4; ++j_1) {
              tl::mma_sync<tl::DataType::kFloat16, tl::DataType::kFloat16, tl::DataType::kFloat32, 16, 8, 16, false, true>(reinterpret_cast<float*>(Ol + ((i_13 * 32) + (j_1 * 8))), reinterpret_cast<const unsigned*>(P + ((ki_1 * 16) + (i_13 * 8))), reinterpret_cast<const unsigned*>(B_local_1 + (j_1 * 8)));
              tl::mma_sync<tl::DataType::kFloat16, tl::DataType::kFloat16, tl::DataType::kFloat32, 16, 8, 16, false, true>(reinterpret_cast<float*>(Ol + (((i_13 * 32) + (j_1 * 8)) + 4)), reinterpret_cast<const unsigned*>(P + ((ki_1 * 16) + (i_13 * 8))), reinterpret_cast<const unsigned*>(B_local_1 + ((j_1 * 8) + 4)));
            }
          }
        }
      }
      mbarrier[((k_1 & 1) + 6)].arrive();
    }
    #pragma unroll
    for (int i_14 = 0; i_14 < 64; ++i_14) {
      Ol[i_14] = (Ol[i_14] / total[(((i_14 >> 5) * 2) + ((i_14 & 3) >> 1))]);
    }
    tl::__sync_thread_partial(3, 128);
    #pragma unroll
    for (int i_15 = 0; i_15 < 8; ++i_15) {
      tl::ptx_stmatrix_m8n8_x4((&(((half_t*)Os)[((((((((((int)threadIdx.x) & 127) >> 5) * 2048) + ((i_15 >> 2) * 1024)) + ((((int)threadIdx.x) & 15) * 64)) + (((((((int)threadIdx.x) & 7) >> 2) + ((i_15 & 3) >> 1)) & 1) * 32)) + (((((((int)threadIdx.x) & 3) >> 1) + (i_15 & 1)) & 1) * 16)) + (((((((int)threadIdx.x) & 31) >> 4) + (((int)threadIdx.x) & 1)) & 1) * 8))])), __pack_half2(((half_t)Ol[(i_15 * 8)]), ((half_t)Ol[((i_15 * 8) + 1)])), __pack_half2(((half_t)Ol[((i_15 * 8) + 2)]), ((half_t)Ol[((i_15 * 8) + 3)])), __pack_half2(((half_t)Ol[((i_15 * 8) + 4)]), ((half_t)Ol[((i_15 * 8) + 5)])), __pack_half2(((half_t)Ol[((i_15 * 8) + 6)]), ((half_t)Ol[((i_15 * 8) + 7)])));
    }
    tl::__sync_thread_partial(3, 128);
    if (tl::tl_shuffle_elect<128>()) {
      tl::fence_proxy_async();
      tl::tma_store(O_desc, (&(((half_t*)Os)[0])), 0, (((int)blockIdx.x) * 128), ((int)blockIdx.y), 0);
      tl::tma_store_arrive();
      tl::tma_store_wait<0, true>();
    }
  }
}

