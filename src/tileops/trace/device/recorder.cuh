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
constexpr u32 kCountLimit = 0xFFFFFFF0u;
constexpr u32 kWarpgroup = 128;

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
// down again in their own code. The author's markers stay on that side of the split or ahead of it, so one physical
// thread is elected for both: the lead, moved up by the number of producers. Those around copies alone go to the
// producers' side, in groups of their own (placing.py).
//
// kThreadsX is how many threads the author has along x; 0 where the code already numbers the launched ones.
//
// A row keeps its first records, or its last ones (kKeepLast; the capacity is a power of two then).
//
// Where warpgroups run the same code, one recorder serves kLeads of them: the first thread of each is elected, its row
// lies kRowBytes behind the one before, and its sites are numbered from kSites on where the one before ended.
template <u32 kCapacity, u32 kRecordBytes, bool kKeepLast, u32 kLead, u32 kThreadsX, u32 kLeads = 1, u32 kRowBytes = 0,
          u32 kSites = 0>
struct Recorder {
  u64 row;          // address of the header
  u32 count;        // records attempted
  u32 limit;        // records that may be stored: the capacity in the elected thread, 0 elsewhere
  u32 shared;       // events attempted less records attempted: markers that shared another's record
  u32 first_site;   // of this warpgroup, in the place that a record has its site in; a constant 0 for one lead
  u64 held[3];      // records that wait to be stored with the next one, see batches.py; in registers, as all of this
  u32 payloads[3];  // theirs
  u32 late[3];      // their sites, where these are kept apart, in the place that a record has them in

  __device__ __forceinline__ Recorder(u64 first_row, bool recorded, u32 grid_x, u32 grid_y, u32 grid_z)
      : row(first_row + (u64)warpgroup() * kRowBytes),
        count(0),
        limit(recorded && is_elected() ? kCapacity : 0),
        shared(0),
        first_site(warpgroup() * kSites << 16),
        held{},
        payloads{},
        late{} {
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

  // Keeps a record as the kAt-th of the next batch.
  template <int kAt>
  __device__ __forceinline__ void hold(u32 site, u32 events, u32 payload = 0) {
    held[kAt] = stamped(site);
    payloads[kAt] = payload;
    shared += events;
  }

  // Stores a record behind the kRecords - 1 that were held.
  template <int kRecords>
  __device__ __forceinline__ void mark(u32 site, u32 events, u32 payload = 0) {
    const u64 record = stamped(site);
    if constexpr (kKeepLast) {
      for (int k = 0; k < kRecords - 1; ++k) store<1>((count + k) & (kCapacity - 1), held[k], payloads[k]);
      store<1>((count + kRecords - 1) & (kCapacity - 1), record, payload);
    } else {
      store<kRecords>(count, record, payload);
    }
    // The counter saturates, so that it can never wrap to a value that passes the bounds check again. Addition and
    // minimum are one instruction on Hopper.
    const u32 next = count + kRecords;
    count = next < kCountLimit ? next : kCountLimit;
    shared += events - kRecords;
  }

  // Says what the first of a loop's records that are kept with hold_late() is, and how many events that has beyond
  // those of the others.
  template <int kAt>
  __device__ __forceinline__ void first(u32 site, int more) {
    late[kAt] = (site << 16) + first_site;
    shared += more;
  }

  // Keeps the clock alone as the kAt-th of the next batch, for settle() to put the site in.
  template <int kAt>
  __device__ __forceinline__ void hold_late(u32 events, u32 payload = 0) {
    held[kAt] = clock_now();
    payloads[kAt] = payload;
    shared += events;
  }

  // Puts a record together; the next one that is kept in its place is of site `next`. That is set in the same statement:
  // as the constant that it is, it made nvcc take a loop's first iteration out of the loop, and leave it rolled.
  template <int kAt>
  __device__ __forceinline__ void settle(u32 next) {
    u64 record;
    u32 site;
    asm volatile(
        "{\n\t"
        ".reg .b32 low, high;\n\t"
        "mov.b64 {low, high}, %2;\n\t"
        "add.u32 high, high, %3;\n\t"
        "mov.b64 %0, {low, high};\n\t"
        "mov.u32 %1, %4;\n\t"
        "}"
        : "=l"(record), "=r"(site)
        : "l"(held[kAt]), "r"(late[kAt]), "r"((next << 16) + first_site)
        : "memory");
    held[kAt] = record;
    late[kAt] = site;
  }

  // Stores kRecords that were held.
  template <int kRecords>
  __device__ __forceinline__ void flush() {
    if constexpr (kKeepLast) {
      for (int k = 0; k < kRecords; ++k) store<1>((count + k) & (kCapacity - 1), held[k], payloads[k]);
    } else {
      store<kRecords>(count, held[kRecords - 1], payloads[kRecords - 1]);
    }
    const u32 next = count + kRecords;
    count = next < kCountLimit ? next : kCountLimit;
    shared -= kRecords;
  }

 private:
  static __device__ __forceinline__ bool is_elected() {
    if constexpr (kThreadsX == 0) {
      const u32 thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
      if constexpr (kLeads > 1) {
        return thread >= kLead && (thread - kLead) % kWarpgroup == 0 && (thread - kLead) / kWarpgroup < kLeads;
      } else {
        return thread == kLead;
      }
    } else {
      const u32 producers = blockDim.x - kThreadsX;
      const u32 author_x = threadIdx.x - producers;
      return threadIdx.x >= producers && author_x + kThreadsX * (threadIdx.y + blockDim.y * threadIdx.z) == kLead;
    }
  }

  // Of the warpgroups that this recorder serves, the elected thread's own. They are counted along x; a thread of a
  // further row of a block with several, which no kernel of several warpgroups has been seen with, stays in the rows.
  static __device__ __forceinline__ u32 warpgroup() {
    if constexpr (kLeads > 1) {
      const u32 own = (threadIdx.x - kLead) / kWarpgroup;
      return own < kLeads ? own : 0;
    } else {
      return 0;
    }
  }

  // The clock now, and the site in its upper bits.
  __device__ __forceinline__ u64 stamped(u32 site) const {
    u64 record;
    asm volatile(
        "{\n\t"
        ".reg .b32 low, high;\n\t"
        ".reg .b64 now;\n\t"
        "mov.u64 now, %%clock64;\n\t"
        "mov.b64 {low, high}, now;\n\t"
        "add.u32 high, high, %1;\n\t"
        "mov.b64 %0, {low, high};\n\t"
        "}"
        : "=l"(record)
        : "r"(kLeads > 1 ? (site << 16) + first_site : site << 16)
        : "memory");
    return record;
  }

  // Stores a record and the kRecords - 1 held ones ahead of it, the first of them at `at`.
  //
  // The bounds check, the election and the stores are one predicated instruction sequence without a branch: a branch
  // around the store was slower (66 cycles against 27 in the first designs). Behind a row's last record there is room
  // for three more, so that one check is enough for all. The address is computed from the count, so that it lies inside
  // the row in any case. One statement for each number of records: of several, ptxas made several checks and waits.
  template <int kRecords>
  __device__ __forceinline__ void store(u32 at, u64 record, u32 payload) const {
    if constexpr (kRecordBytes == 8 && kRecords == 1) {
      asm volatile(
          "{\n\t"
          ".reg .pred p;\n\t"
          ".reg .b64 place;\n\t"
          "setp.lt.u32 p, %0, %1;\n\t"
          "mad.wide.u32 place, %0, 8, %2;\n\t"
          "@p st.global.b64 [place + 64], %3;\n\t"
          "}" ::"r"(at), "r"(limit), "l"(row), "l"(record)
          : "memory");
    } else if constexpr (kRecordBytes == 8 && kRecords == 2) {
      asm volatile(
          "{\n\t"
          ".reg .pred p;\n\t"
          ".reg .b64 place;\n\t"
          "setp.lt.u32 p, %0, %1;\n\t"
          "mad.wide.u32 place, %0, 8, %2;\n\t"
          "@p st.global.b64 [place + 64], %3;\n\t"
          "@p st.global.b64 [place + 72], %4;\n\t"
          "}" ::"r"(at), "r"(limit), "l"(row), "l"(held[0]), "l"(record)
          : "memory");
    } else if constexpr (kRecordBytes == 8 && kRecords == 3) {
      asm volatile(
          "{\n\t"
          ".reg .pred p;\n\t"
          ".reg .b64 place;\n\t"
          "setp.lt.u32 p, %0, %1;\n\t"
          "mad.wide.u32 place, %0, 8, %2;\n\t"
          "@p st.global.b64 [place + 64], %3;\n\t"
          "@p st.global.b64 [place + 72], %4;\n\t"
          "@p st.global.b64 [place + 80], %5;\n\t"
          "}" ::"r"(at), "r"(limit), "l"(row), "l"(held[0]), "l"(held[1]), "l"(record)
          : "memory");
    } else if constexpr (kRecordBytes == 8 && kRecords == 4) {
      asm volatile(
          "{\n\t"
          ".reg .pred p;\n\t"
          ".reg .b64 place;\n\t"
          "setp.lt.u32 p, %0, %1;\n\t"
          "mad.wide.u32 place, %0, 8, %2;\n\t"
          "@p st.global.b64 [place + 64], %3;\n\t"
          "@p st.global.b64 [place + 72], %4;\n\t"
          "@p st.global.b64 [place + 80], %5;\n\t"
          "@p st.global.b64 [place + 88], %6;\n\t"
          "}" ::"r"(at), "r"(limit), "l"(row), "l"(held[0]), "l"(held[1]), "l"(held[2]), "l"(record)
          : "memory");
    } else if constexpr (kRecordBytes == 16 && kRecords == 1) {
      asm volatile(
          "{\n\t"
          ".reg .pred p;\n\t"
          ".reg .b64 place;\n\t"
          "setp.lt.u32 p, %0, %1;\n\t"
          "mad.wide.u32 place, %0, 16, %2;\n\t"
          "@p st.global.v2.b64 [place + 64], {%3, %4};\n\t"
          "}" ::"r"(at), "r"(limit), "l"(row), "l"(record), "l"((u64)payload)
          : "memory");
    } else if constexpr (kRecordBytes == 16 && kRecords == 2) {
      asm volatile(
          "{\n\t"
          ".reg .pred p;\n\t"
          ".reg .b64 place;\n\t"
          "setp.lt.u32 p, %0, %1;\n\t"
          "mad.wide.u32 place, %0, 16, %2;\n\t"
          "@p st.global.v2.b64 [place + 64], {%3, %4};\n\t"
          "@p st.global.v2.b64 [place + 80], {%5, %6};\n\t"
          "}" ::"r"(at), "r"(limit), "l"(row), "l"(held[0]), "l"((u64)payloads[0]), "l"(record), "l"((u64)payload)
          : "memory");
    } else if constexpr (kRecordBytes == 16 && kRecords == 3) {
      asm volatile(
          "{\n\t"
          ".reg .pred p;\n\t"
          ".reg .b64 place;\n\t"
          "setp.lt.u32 p, %0, %1;\n\t"
          "mad.wide.u32 place, %0, 16, %2;\n\t"
          "@p st.global.v2.b64 [place + 64], {%3, %4};\n\t"
          "@p st.global.v2.b64 [place + 80], {%5, %6};\n\t"
          "@p st.global.v2.b64 [place + 96], {%7, %8};\n\t"
          "}" ::"r"(at), "r"(limit), "l"(row), "l"(held[0]), "l"((u64)payloads[0]), "l"(held[1]),
          "l"((u64)payloads[1]), "l"(record), "l"((u64)payload)
          : "memory");
    } else if constexpr (kRecordBytes == 16 && kRecords == 4) {
      asm volatile(
          "{\n\t"
          ".reg .pred p;\n\t"
          ".reg .b64 place;\n\t"
          "setp.lt.u32 p, %0, %1;\n\t"
          "mad.wide.u32 place, %0, 16, %2;\n\t"
          "@p st.global.v2.b64 [place + 64], {%3, %4};\n\t"
          "@p st.global.v2.b64 [place + 80], {%5, %6};\n\t"
          "@p st.global.v2.b64 [place + 96], {%7, %8};\n\t"
          "@p st.global.v2.b64 [place + 112], {%9, %10};\n\t"
          "}" ::"r"(at), "r"(limit), "l"(row), "l"(held[0]), "l"((u64)payloads[0]), "l"(held[1]),
          "l"((u64)payloads[1]), "l"(held[2]), "l"((u64)payloads[2]), "l"(record), "l"((u64)payload)
          : "memory");
    }
  }
};

}  // namespace tileops_trace

#define tileops_open(group, capacity, record_bytes, keep_last, lead, threads_x, slots, recorded, grid_x, grid_y, grid_z) \
  tileops_trace::Recorder<capacity, record_bytes, keep_last, lead, threads_x> tileops_recorder_##group(                  \
      (tileops_trace::u64)(slots), (recorded), (grid_x), (grid_y), (grid_z))
// The same for warpgroups that run the same code; see Recorder.
#define tileops_open_each(group, capacity, record_bytes, keep_last, lead, leads, row_bytes, sites, slots, recorded, grid_x, grid_y, grid_z) \
  tileops_trace::Recorder<capacity, record_bytes, keep_last, lead, 0, leads, row_bytes, sites> tileops_recorder_##group(       \
      (tileops_trace::u64)(slots), (recorded), (grid_x), (grid_y), (grid_z))
#define tileops_close(group)
// Variadic, because a payload's C++ may hold commas that no parentheses protect.
#define tileops_i32(...) tileops_trace::bits(__VA_ARGS__)
#define tileops_f32(...) tileops_trace::bits((float)(__VA_ARGS__))
#define tileops_mark(group, ...) tileops_recorder_##group.mark<1>(__VA_ARGS__)
#define tileops_mark_i32(group, site, events, ...) tileops_mark(group, site, events, tileops_i32(__VA_ARGS__))
#define tileops_mark_f32(group, site, events, ...) tileops_mark(group, site, events, tileops_f32(__VA_ARGS__))
#define tileops_mark_held0(group, ...) tileops_recorder_##group.hold<0>(__VA_ARGS__)
#define tileops_mark_held0_i32(group, site, events, ...) tileops_mark_held0(group, site, events, tileops_i32(__VA_ARGS__))
#define tileops_mark_held0_f32(group, site, events, ...) tileops_mark_held0(group, site, events, tileops_f32(__VA_ARGS__))
#define tileops_mark_held1(group, ...) tileops_recorder_##group.hold<1>(__VA_ARGS__)
#define tileops_mark_held1_i32(group, site, events, ...) tileops_mark_held1(group, site, events, tileops_i32(__VA_ARGS__))
#define tileops_mark_held1_f32(group, site, events, ...) tileops_mark_held1(group, site, events, tileops_f32(__VA_ARGS__))
#define tileops_mark_held2(group, ...) tileops_recorder_##group.hold<2>(__VA_ARGS__)
#define tileops_mark_held2_i32(group, site, events, ...) tileops_mark_held2(group, site, events, tileops_i32(__VA_ARGS__))
#define tileops_mark_held2_f32(group, site, events, ...) tileops_mark_held2(group, site, events, tileops_f32(__VA_ARGS__))
#define tileops_mark_store2(group, ...) tileops_recorder_##group.mark<2>(__VA_ARGS__)
#define tileops_mark_store2_i32(group, site, events, ...) tileops_mark_store2(group, site, events, tileops_i32(__VA_ARGS__))
#define tileops_mark_store2_f32(group, site, events, ...) tileops_mark_store2(group, site, events, tileops_f32(__VA_ARGS__))
#define tileops_mark_store3(group, ...) tileops_recorder_##group.mark<3>(__VA_ARGS__)
#define tileops_mark_store3_i32(group, site, events, ...) tileops_mark_store3(group, site, events, tileops_i32(__VA_ARGS__))
#define tileops_mark_store3_f32(group, site, events, ...) tileops_mark_store3(group, site, events, tileops_f32(__VA_ARGS__))
#define tileops_mark_store4(group, ...) tileops_recorder_##group.mark<4>(__VA_ARGS__)
#define tileops_mark_store4_i32(group, site, events, ...) tileops_mark_store4(group, site, events, tileops_i32(__VA_ARGS__))
#define tileops_mark_store4_f32(group, site, events, ...) tileops_mark_store4(group, site, events, tileops_f32(__VA_ARGS__))
#define tileops_flush1(group) tileops_recorder_##group.flush<1>()
#define tileops_flush2(group) tileops_recorder_##group.flush<2>()
#define tileops_flush3(group) tileops_recorder_##group.flush<3>()
#define tileops_first0(group, ...) tileops_recorder_##group.first<0>(__VA_ARGS__)
#define tileops_mark_late0(group, ...) tileops_recorder_##group.hold_late<0>(__VA_ARGS__)
#define tileops_mark_late0_i32(group, events, ...) tileops_mark_late0(group, events, tileops_i32(__VA_ARGS__))
#define tileops_settle0(group, next) tileops_recorder_##group.settle<0>(next)
#define tileops_first1(group, ...) tileops_recorder_##group.first<1>(__VA_ARGS__)
#define tileops_mark_late1(group, ...) tileops_recorder_##group.hold_late<1>(__VA_ARGS__)
#define tileops_mark_late1_i32(group, events, ...) tileops_mark_late1(group, events, tileops_i32(__VA_ARGS__))
#define tileops_settle1(group, next) tileops_recorder_##group.settle<1>(next)
#define tileops_first2(group, ...) tileops_recorder_##group.first<2>(__VA_ARGS__)
#define tileops_mark_late2(group, ...) tileops_recorder_##group.hold_late<2>(__VA_ARGS__)
#define tileops_mark_late2_i32(group, events, ...) tileops_mark_late2(group, events, tileops_i32(__VA_ARGS__))
#define tileops_settle2(group, next) tileops_recorder_##group.settle<2>(next)
