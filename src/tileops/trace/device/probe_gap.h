// Work that no compiler removes or merges, for the kernels that measure what a marker costs: one dependent operation.
#if defined(__CUDACC__)
#define tileops_probe_gap() asm volatile("{ .reg .b32 t; mov.b32 t, 0; fma.rn.f32 t, t, t, t; }" ::: "memory")
#else
extern "C" {
static int32_t tileops_probe_gap() {
  asm volatile("" ::: "memory");
  return 0;
}
}
#endif
