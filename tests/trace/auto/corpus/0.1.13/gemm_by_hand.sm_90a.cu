#if defined(_MSC_VER) && !defined(__clang__) && _MSC_VER < 1940
#define _tl_orig_alignas alignas
#define alignas(N) _tl_orig_alignas((N) <= 64 ? (N) : 64)
#include <cuda.h>
#undef alignas
#define alignas _tl_orig_alignas
#endif
#include <tl_templates/cuda/instruction/wgmma.h>
#include <tl_templates/cuda/intrin.h>
#include <tl_templates/cuda/barrier.h>
#include <tl_templates/cuda/copy_sm90.h>
#include <tl_templates/cuda/reduce.h>
#include <tl_templates/cuda/scan.h>
#include <tl_templates/cuda/ldsm.h>
#include <tl_templates/cuda/threadblock_swizzle.h>
#include <tl_templates/cuda/debug.h>
#ifdef ENABLE_BF16
#include <tl_templates/cuda/cuda_bf16_fallbacks.cuh>
#endif

extern "C" __global__ void gemm_kernel(__grid_constant__ const CUtensorMap a_desc, __grid_constant__ const CUtensorMap b_desc, __grid_constant__ const CUtensorMap c_desc);
extern "C" __global__ void __launch_bounds__(384, 1) gemm_kernel(__grid_constant__ const CUtensorMap a_desc, __grid_constant__ const CUtensorMap b_desc, __grid_constant__ const CUtensorMap c_desc) {
  extern __shared__ __align__(1024) uchar buf_dyn_shmem[];
  void* b_smem = ((void*)((char*)buf_dyn_shmem + 0));
  void* a_smem = ((void*)((char*)buf_dyn_shmem + 131072));
  void* c_smem = ((void*)((char*)buf_dyn_shmem + 196608));
  __shared__ __align__(16) uint64_t full_mem[4];
  auto full = reinterpret_cast<Barrier*>(full_mem);
  __shared__ __align__(16) uint64_t empty_mem[4];
  auto empty = reinterpret_cast<Barrier*>(empty_mem);
  float acc[128];
  float acc_1[128];
  if (tl::tl_shuffle_elect<0>()) {
    tl::prefetch_tma_descriptor(a_desc);
    tl::prefetch_tma_descriptor(b_desc);
    tl::prefetch_tma_descriptor(c_desc);
  }
  if (tl::tl_shuffle_elect<0>()) {
    full[0].init(1);
    full[1].init(1);
    full[2].init(1);
    full[3].init(1);
    empty[0].init(8);
    empty[1].init(8);
    empty[2].init(8);
    empty[3].init(8);
  }
  tl::fence_barrier_init();
  __syncthreads();
  const dim3 blockIdx = tl::rasterization2DRow<8>();
  if (((int)threadIdx.x) < 128) {
    tl::warpgroup_reg_dealloc<40>();
    if (((int)threadIdx.x) < 32) {
      for (int turn = 0; turn < 16; ++turn) {
        #pragma unroll
        for (int stage = 0; stage < 4; ++stage) {
          empty[stage].wait(((turn & 1) ^ 1));
          if (tl::tl_shuffle_elect<32>()) {
            full[stage].expect_transaction(16384);
            tl::tma_load(a_desc, full[stage], (&(((half_t*)a_smem)[(stage * 8192)])), ((turn * 256) + (stage * 64)), (((int)blockIdx.y) * 128));
            full[stage].arrive_and_expect_tx(32768);
            tl::tma_load(b_desc, full[stage], (&(((half_t*)b_smem)[(stage * 16384)])), ((turn * 256) + (stage * 64)), (((int)blockIdx.x) * 256));
          }
        }
      }
    }
  } else {
    tl::warpgroup_reg_alloc<232>();
    if (((int)threadIdx.x) < 256) {
      #pragma unroll
      for (int i = 0; i < 32; ++i) {
        float broadcast_var = 0x0p+0f/*0.000000e+00*/;
        *(float4*)(acc + (i * 4)) = make_float4(broadcast_var, broadcast_var, broadcast_var, broadcast_var);
      }
      for (int turn_1 = 0; turn_1 < 16; ++turn_1) {
        #pragma unroll
        for (int stage_1 = 0; stage_1 < 4; ++stage_1) {
          full[stage_1].wait((turn_1 & 1));
          {
            tl::GmmaDescriptor desc_a;
            tl::GmmaDescriptor desc_b;
            tl::initialize_wgmma_descriptor<1, 1, 64>(desc_a, (&(((half_t*)a_smem)[0])));
            tl::increase_descriptor_offset<int>(desc_a, (stage_1 * 16384));
            tl::initialize_wgmma_descriptor<1, 1, 64>(desc_b, (&(((half_t*)b_smem)[0])));
            tl::increase_descriptor_offset<int>(desc_b, (stage_1 * 32768));
            tl::warpgroup_fence_operand(reinterpret_cast<float*>(acc + 0), 128);
            tl::warpgroup_arrive();
            #pragma unroll
            for (int ki = 0; ki < 4; ++ki) {
              tl::wgmma_ss<tl::DataType::kFloat16, tl::DataType::kFloat16, tl::DataType::kFloat32, 64, 256, 16, false, false, 1, 1>(uint64_t(desc_a + ((ki * 32) >> 4)), uint64_t(desc_b + ((ki * 32) >> 4)), ((uint32_t*)(acc + 0)), 1);
            }
            tl::warpgroup_commit_batch();
            tl::warpgroup_fence_operand(reinterpret_cast<float*>(acc + 0), 128);
          }
          tl::wait_wgmma<1>();
          if ((1 <= ((turn_1 * 4) + stage_1)) && ((((int)threadIdx.x) % 32) == 0)) {
            empty[((stage_1 + 3) & 3)].arrive();
          }
        }
      }
      tl::wait_wgmma<0>();
      tl::warpgroup_fence_operand(reinterpret_cast<float*>(acc + 0), 128);
      #pragma unroll
      for (int part = 0; part < 2; ++part) {
        tl::__sync_thread_partial(3, 128);
        #pragma unroll
        for (int i_1 = 0; i_1 < 32; ++i_1) {
          half_t c_smem_local_cast[2];
          uint1 __1;
          float2 v_ = *(float2*)(acc + (((part * 64) + ((i_1 & 15) * 4)) + ((i_1 >> 4) * 2)));
          ((half2*)(&__1))[0] = __float22half2_rn(((float2*)(&v_))[0]);
          *(uint1*)(c_smem_local_cast + 0) = __1;
          *(uint1*)(((half_t*)c_smem) + (((((((((((i_1 & 15) >> 3) * 4096) + ((((int)threadIdx.x) >> 5) * 1024)) + ((i_1 >> 4) * 512)) + (((((int)threadIdx.x) & 31) >> 2) * 64)) + (((((((int)threadIdx.x) & 31) >> 4) + ((i_1 & 7) >> 2)) & 1) * 32)) + (((((((int)threadIdx.x) & 15) >> 3) + ((i_1 & 3) >> 1)) & 1) * 16)) + (((((((int)threadIdx.x) & 7) >> 2) + (i_1 & 1)) & 1) * 8)) + ((((int)threadIdx.x) & 3) * 2)) - 4096)) = *(uint1*)(c_smem_local_cast + 0);
        }
        tl::fence_proxy_async();
        tl::__sync_thread_partial(3, 128);
        if (tl::tl_shuffle_elect<128>()) {
          #pragma unroll
          for (int i_2 = 0; i_2 < 2; ++i_2) {
            tl::tma_store(c_desc, (&(((half_t*)c_smem)[(i_2 * 4096)])), (((((int)blockIdx.x) * 256) + (part * 128)) + (i_2 * 64)), (((int)blockIdx.y) * 128));
          }
          tl::tma_store_arrive();
        }
        tl::tma_store_wait<0, true>();
      }
    } else {
      #pragma unroll
      for (int i_3 = 0; i_3 < 32; ++i_3) {
        float broadcast_var_1 = 0x0p+0f/*0.000000e+00*/;
        *(float4*)(acc_1 + (i_3 * 4)) = make_float4(broadcast_var_1, broadcast_var_1, broadcast_var_1, broadcast_var_1);
      }
      for (int turn_2 = 0; turn_2 < 16; ++turn_2) {
        #pragma unroll
        for (int stage_2 = 0; stage_2 < 4; ++stage_2) {
          full[stage_2].wait((turn_2 & 1));
          {
            tl::GmmaDescriptor desc_a_1;
            tl::GmmaDescriptor desc_b_1;
            tl::initialize_wgmma_descriptor<1, 1, 64>(desc_a_1, (&(((half_t*)a_smem)[0])));
            tl::increase_descriptor_offset<int>(desc_a_1, ((stage_2 * 16384) + 8192));
            tl::initialize_wgmma_descriptor<1, 1, 64>(desc_b_1, (&(((half_t*)b_smem)[0])));
            tl::increase_descriptor_offset<int>(desc_b_1, (stage_2 * 32768));
            tl::warpgroup_fence_operand(reinterpret_cast<float*>(acc_1 + 0), 128);
            tl::warpgroup_arrive();
            #pragma unroll
            for (int ki_1 = 0; ki_1 < 4; ++ki_1) {
              tl::wgmma_ss<tl::DataType::kFloat16, tl::DataType::kFloat16, tl::DataType::kFloat32, 64, 256, 16, false, false, 1, 1>(uint64_t(desc_a_1 + ((ki_1 * 32) >> 4)), uint64_t(desc_b_1 + ((ki_1 * 32) >> 4)), ((uint32_t*)(acc_1 + 0)), 1);
            }
            tl::warpgroup_commit_batch();
            tl::warpgroup_fence_operand(reinterpret_cast<float*>(acc_1 + 0), 128);
          }
          tl::wait_wgmma<1>();
          if ((1 <= ((turn_2 * 4) + stage_2)) && ((((int)threadIdx.x) % 32) == 0)) {
            empty[((stage_2 + 3) & 3)].arrive();
          }
        }
      }
      tl::wait_wgmma<0>();
      tl::warpgroup_fence_operand(reinterpret_cast<float*>(acc_1 + 0), 128);
      #pragma unroll
      for (int part_1 = 0; part_1 < 2; ++part_1) {
        tl::__sync_thread_partial(4, 128);
        #pragma unroll
        for (int i_4 = 0; i_4 < 32; ++i_4) {
          half_t c_smem_local_cast_1[2];
          uint1 __2;
          float2 v__1 = *(float2*)(acc_1 + (((part_1 * 64) + ((i_4 & 15) * 4)) + ((i_4 >> 4) * 2)));
          ((half2*)(&__2))[0] = __float22half2_rn(((float2*)(&v__1))[0]);
          *(uint1*)(c_smem_local_cast_1 + 0) = __2;
          *(uint1*)(((half_t*)c_smem) + ((((((((((i_4 & 15) >> 3) * 4096) + ((((int)threadIdx.x) >> 5) * 1024)) + ((i_4 >> 4) * 512)) + (((((int)threadIdx.x) & 31) >> 2) * 64)) + (((((((int)threadIdx.x) & 31) >> 4) + ((i_4 & 7) >> 2)) & 1) * 32)) + (((((((int)threadIdx.x) & 15) >> 3) + ((i_4 & 3) >> 1)) & 1) * 16)) + (((((((int)threadIdx.x) & 7) >> 2) + (i_4 & 1)) & 1) * 8)) + ((((int)threadIdx.x) & 3) * 2))) = *(uint1*)(c_smem_local_cast_1 + 0);
        }
        tl::fence_proxy_async();
        tl::__sync_thread_partial(4, 128);
        if (tl::tl_shuffle_elect<128>()) {
          #pragma unroll
          for (int i_5 = 0; i_5 < 2; ++i_5) {
            tl::tma_store(c_desc, (&(((half_t*)c_smem)[((i_5 * 4096) + 8192)])), (((((int)blockIdx.x) * 256) + (part_1 * 128)) + (i_5 * 64)), ((((int)blockIdx.y) * 128) + 64));
          }
          tl::tma_store_arrive();
        }
        tl::tma_store_wait<0, true>();
      }
    }
  }
}

