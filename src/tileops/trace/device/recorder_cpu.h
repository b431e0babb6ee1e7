// Records events from a kernel compiled for TileLang's CPU target, into the same slots as recorder.cuh.
//
// TileLang declares every external function it calls, so these are functions where the CUDA side has macros, and the
// block's end is a call. Blocks run one after the other in one thread. The clock is the CPU's time stamp counter where
// there is one (it counts at a constant rate on all cores), the SM is the core's number.

#include <sched.h>
#include <stdint.h>
#include <time.h>
#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace tileops_trace {

constexpr uint32_t kStateOpen = 0x54524F50u;
constexpr uint32_t kStateDone = 0x5452444Eu;
constexpr uint32_t kCountLimit = 0xFFFFFFF0u;
constexpr int kHeaderWords = 8;

// One group's row, in the block that runs. Counts saturate, so that they never wrap to one that passes a bounds check.
struct Recorder {
  uint64_t *row;
  uint32_t limit, record_words;  // records that may be stored: the capacity, or 0 in a block that is not recorded
  bool keep_last;                // the last records instead of the first ones; the capacity is a power of two then
  uint32_t count;                // records attempted
  uint32_t events;               // events attempted
};

static thread_local Recorder recorders[TILEOPS_GROUPS];
static thread_local uint64_t last_clock;

static inline uint64_t timer_now() {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static inline uint64_t counter_now() {
#if defined(__x86_64__)
  return __rdtsc();
#elif defined(__aarch64__)
  uint64_t now;
  asm volatile("isb; mrs %0, cntvct_el0" : "=r"(now)::"memory");
  return now;
#else
  return timer_now();
#endif
}

// Never earlier than the reading before, also where the thread moved to a core whose counter is a little behind.
static inline uint64_t clock_now() {
  const uint64_t now = counter_now();
  if ((int64_t)(now - last_clock) > 0) last_clock = now;
  return last_clock;
}

static inline uint64_t pack(uint32_t low, uint32_t high) { return (uint64_t)high << 32 | low; }

static inline uint32_t saturated(uint32_t count, uint32_t more) {
  return count < kCountLimit - more ? count + more : kCountLimit;
}

static inline void mark(int32_t group, int32_t site, int32_t events, uint32_t payload) {
  const uint64_t record = clock_now() + ((uint64_t)site << 48);
  Recorder &recorder = recorders[group];
  const uint32_t at = recorder.keep_last ? recorder.count & (recorder.limit - 1) : recorder.count;
  if (at < recorder.limit) {
    uint64_t *word = recorder.row + kHeaderWords + (uint64_t)at * recorder.record_words;
    word[0] = record;
    if (recorder.record_words == 2) word[1] = payload;
  }
  recorder.count = saturated(recorder.count, 1);
  recorder.events = saturated(recorder.events, (uint32_t)events);
}

}  // namespace tileops_trace

extern "C" {

static int32_t tileops_open(int32_t group, int32_t capacity, int32_t record_bytes, int32_t keep_last, int32_t /*lead*/,
                            int32_t /*threads_x*/, int64_t *row, int32_t recorded, int32_t grid_x, int32_t grid_y,
                            int32_t grid_z) {
  using namespace tileops_trace;
  uint64_t *header = (uint64_t *)row;
  recorders[group] = {header, recorded ? (uint32_t)capacity : 0, (uint32_t)record_bytes / 8, keep_last != 0, 0, 0};
  if (!recorded) return 0;
  header[0] = kStateOpen;
  header[1] = pack(0, (uint32_t)sched_getcpu());
  header[6] = pack((uint32_t)grid_x, (uint32_t)grid_y);
  header[7] = (uint32_t)grid_z;
  // Clock, then timer, here and at the end: what lies between the two then drops out of the row's length.
  header[2] = clock_now();
  header[3] = timer_now();
  return 0;
}

static int32_t tileops_close(int32_t group) {
  using namespace tileops_trace;
  Recorder &recorder = recorders[group];
  if (recorder.limit == 0) return 0;
  recorder.row[4] = clock_now();
  recorder.row[5] = timer_now();
  recorder.row[1] = pack(recorder.events, (uint32_t)(recorder.row[1] >> 32));
  recorder.row[0] = pack(kStateDone, recorder.count);
  return 0;
}

// Blocks run on their own here: nothing is won by keeping a record back, so the markers of a batch are like any other.
#define TILEOPS_MARKS(suffix)                                                                             \
  static int32_t tileops_mark##suffix(int32_t group, int32_t site, int32_t events) {                      \
    tileops_trace::mark(group, site, events, 0);                                                          \
    return 0;                                                                                             \
  }                                                                                                       \
  static int32_t tileops_mark##suffix##_i32(int32_t group, int32_t site, int32_t events, int32_t payload) { \
    tileops_trace::mark(group, site, events, (uint32_t)payload);                                          \
    return 0;                                                                                             \
  }                                                                                                       \
  static int32_t tileops_mark##suffix##_f32(int32_t group, int32_t site, int32_t events, float payload) { \
    uint32_t bits;                                                                                        \
    __builtin_memcpy(&bits, &payload, sizeof bits);                                                       \
    tileops_trace::mark(group, site, events, bits);                                                       \
    return 0;                                                                                             \
  }

TILEOPS_MARKS()
TILEOPS_MARKS(_held0)
TILEOPS_MARKS(_held1)
TILEOPS_MARKS(_held2)
TILEOPS_MARKS(_store2)
TILEOPS_MARKS(_store3)
TILEOPS_MARKS(_store4)

}  // extern "C"
