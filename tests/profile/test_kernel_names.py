"""Kernel names, as recorded on GPUs."""

from __future__ import annotations

import pytest

from tileops.profile.kernel_names import uses_tensor_cores


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("nvjet_hsh_128x256_64x4_1x2_h_bz_coopA_TNT", True),
        ("sm80_xmma_fprop_implicit_gemm_tf32f32_tf32f32_f32_nhwckrsc_nchw_tilesize128x128x32_stage4", True),
        ("ampere_fp16_s16816gemm_fp16_128x128_ldg8_f2f_stages_64x3_tn", True),
        ("void cutlass::Kernel2<cutlass_80_tensorop_s1688gemm_128x128_32x3_nn_align4>(Params)", True),
        ("volta_h884gemm_128x128_ldg8_nn", True),
        ("flash_fwd_kernel<Flash_fwd_kernel_traits<128, 128, 64, 4, false, false, cutlass::half_t>>", True),
        ("void cutlass::Kernel<cutlass_80_simt_sgemm_128x64_8x5_nn_align1>(Params)", False),
        ("ampere_sgemm_32x32_sliced1x4_tn", False),
        ("volta_sgemm_64x64_nt", False),
        ("void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>(int)", False),
        ("void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float>>(Op)", False),
        ("main_kernel", None),
        ("triton_poi_fused_add_cos_sin_0", None),
    ],
)
def test_names(name, expected):
    assert uses_tensor_cores([name]) is expected


def test_several():
    elementwise, product = "elementwise_kernel", "nvjet_hsh_128"
    assert uses_tensor_cores([elementwise, product]) is True
    assert uses_tensor_cores([elementwise, "main_kernel"]) is None
    assert uses_tensor_cores([elementwise, elementwise]) is False
    assert uses_tensor_cores([]) is None
