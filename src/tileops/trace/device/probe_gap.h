// Work for the kernels that measure what a marker costs: one operation that nothing removes as long as the kernel uses its
// result. Each call takes the result of the one before, and the last result is stored. With an operation whose result
// nobody read, ptxas deleted it and then the empty loop, and records stood back to back.
#if defined(__CUDACC__)
static __device__ __forceinline__ float tileops_probe_step(float value) {
  float next;
  asm volatile("fma.rn.f32 %0, %1, %1, %1;" : "=f"(next) : "f"(value) : "memory");
  return next;
}
#else
extern "C" {
static float tileops_probe_step(float value) {
  asm volatile("" : "+m"(value)::"memory");
  return value;
}
}
#endif
