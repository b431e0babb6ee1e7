// Records events from inside a CUDA kernel.
//
// TileLang prints three calls into the kernel: tileops_open at its start, tileops_mark* where markers stand, and
// tileops_close at its end, which does nothing here: closing a row is the recorder's destructor, because
// T.thread_return() becomes `return` and would skip a call. The calls are macros over one Recorder object a group, so
// that the count of records stays in a register; kept in memory it made a marker cost 231 cycles on an H200.
//
// Layout and constants: see slots.py, which passes them in. No header is included, so that nvrtc takes it as well.

namespace tileops_trace {

typedef unsigned int u32;
typedef unsigned long long u64;

constexpr u32 kStateOpen = 0x54524F50u;
constexpr u32 kStateDone = 0x5452444Eu;
constexpr u32 kCountLimit = 0xFFFFFFFEu;
constexpr u64 kHeaderBytes = 64;

// 64 bits of the clock, not 32: on Hopper CS2R delivers sooner than CS2R.32.
__device__ __forceinline__ u64 clock_now() {
  u64 now;
  asm volatile("mov.u64 %0, %%clock64;" : "=l"(now)::"memory");
  return now;
}

__device__ __forceinline__ u64 timer_now() {
  u64 now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now)::"memory");
  return now;
}

__device__ __forceinline__ u32 sm_id() {
  u32 id;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(id));
  return id;
}

__device__ __forceinline__ void store2(u64 address, u64 first, u64 second) {
  asm volatile("st.global.v2.b64 [%0], {%1, %2};" ::"l"(address), "l"(first), "l"(second) : "memory");
}

__device__ __forceinline__ u64 pack(u32 low, u32 high) { return (u64)high << 32 | low; }

__device__ __forceinline__ u32 bits(int payload) { return (u32)payload; }
__device__ __forceinline__ u32 bits(u32 payload) { return payload; }
__device__ __forceinline__ u32 bits(float payload) { return __float_as_uint(payload); }

// One group's recorder in one thread.
//
// Where TileLang specializes warps by itself it launches producers below the author's threads, and numbers the rest
// down again in their own code. All of the author's markers stay on that side of the split or ahead of it, so one
// physical thread is elected for both: the lead, moved up by the number of producers.
template <u32 kCapacity, u32 kRecordBytes, u32 kLead, u32 kThreadsX>
struct Recorder {
  u64 row;      // address of the header
  u32 count;    // records attempted
  u32 limit;    // records that may be stored: the capacity in the elected thread, 0 elsewhere
  u32 shared;   // events attempted less records attempted: markers that shared another's record

  __device__ __forceinline__ Recorder(u64 first_row, u32 grid_x, u32 grid_y, u32 grid_z)
      : row(first_row), count(0), limit(is_elected() ? kCapacity : 0), shared(0) {
    if (limit != 0) {
      const u64 clock = clock_now(), timer = timer_now();
      store2(row, kStateOpen, pack(0, sm_id()));
      store2(row + 16, clock, timer);
      store2(row + 48, pack(grid_x, grid_y), grid_z);
    }
  }

  Recorder(const Recorder &) = delete;
  Recorder &operator=(const Recorder &) = delete;

  __device__ __forceinline__ ~Recorder() {
    if (limit != 0) {
      const u64 clock = clock_now(), timer = timer_now();
      store2(row + 32, clock, timer);
      store2(row, pack(kStateDone, count), pack(count + shared, sm_id()));
    }
  }

  // The bounds check, the election and the store are one predicated instruction sequence without a branch: a branch
  // around the store was slower (66 cycles against 27 in the first designs). The counter saturates, so that it can never wrap to a value
  // that passes the check again; addresses are computed from it, so that they stay inside the row in any case.
  __device__ __forceinline__ void mark(u32 site, u32 events) {
    store(site);
    advance(events);
  }

  __device__ __forceinline__ void mark(u32 site, u32 events, u32 payload) {
    store(site, payload);
    advance(events);
  }

 private:
  static __device__ __forceinline__ bool is_elected() {
    const u32 producers = blockDim.x - kThreadsX;
    const u32 author_x = threadIdx.x - producers;
    return threadIdx.x >= producers && author_x + kThreadsX * (threadIdx.y + blockDim.y * threadIdx.z) == kLead;
  }

  __device__ __forceinline__ void store(u32 site) {
    asm volatile(
        "{\n\t"
        ".reg .pred p;\n\t"
        ".reg .b32 low, high;\n\t"
        ".reg .b64 now, record;\n\t"
        "mov.u64 now, %%clock64;\n\t"
        "mov.b64 {low, high}, now;\n\t"
        "add.u32 high, high, %4;\n\t"
        "setp.lt.u32 p, %0, %1;\n\t"
        "mad.wide.u32 record, %0, %3, %2;\n\t"
        "@p st.global.v2.b32 [record + 64], {low, high};\n\t"
        "}" ::"r"(count), "r"(limit), "l"(row), "n"(kRecordBytes), "r"(site << 16)
        : "memory");
  }

  __device__ __forceinline__ void store(u32 site, u32 payload) {
    asm volatile(
        "{\n\t"
        ".reg .pred p;\n\t"
        ".reg .b32 low, high;\n\t"
        ".reg .b64 now, record;\n\t"
        "mov.u64 now, %%clock64;\n\t"
        "mov.b64 {low, high}, now;\n\t"
        "add.u32 high, high, %4;\n\t"
        "setp.lt.u32 p, %0, %1;\n\t"
        "mad.wide.u32 record, %0, %3, %2;\n\t"
        "@p st.global.v4.b32 [record + 64], {low, high, %5, %5};\n\t"
        "}" ::"r"(count), "r"(limit), "l"(row), "n"(kRecordBytes), "r"(site << 16), "r"(payload)
        : "memory");
  }

  __device__ __forceinline__ void advance(u32 events) {
    const u32 next = count + 1;  // add and minimum become one instruction on Hopper, and fold in unrolled loops
    count = next < kCountLimit ? next : kCountLimit;
    shared += events - 1;
  }
};

}  // namespace tileops_trace

#define tileops_open(group, capacity, record_bytes, lead, threads_x, slots, grid_x, grid_y, grid_z) \
  tileops_trace::Recorder<capacity, record_bytes, lead, threads_x> tileops_recorder_##group(        \
      (tileops_trace::u64)(slots), (grid_x), (grid_y), (grid_z))
#define tileops_close(group)
#define tileops_mark(group, site, events) tileops_recorder_##group.mark(site, events)
// Variadic, because a payload's C++ may hold commas that no parentheses protect.
#define tileops_mark_i32(group, site, events, ...) \
  tileops_recorder_##group.mark(site, events, tileops_trace::bits(__VA_ARGS__))
#define tileops_mark_f32(group, site, events, ...) \
  tileops_recorder_##group.mark(site, events, tileops_trace::bits((float)(__VA_ARGS__)))
