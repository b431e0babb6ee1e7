// Drives a device recorder on the host, as a kernel's generated code does. Built once for each recorder, which the
// build names with -include, by test_recorder_host.py; it describes the words on standard input and output.

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <vector>

enum Op { kMark, kMarkInt, kMarkUnsigned, kMarkFloat, kJump, kLeave, kEnd };

static std::vector<int64_t> read_words(size_t count) {
  std::vector<int64_t> words(count);
  if (fread(words.data(), 8, count, stdin) != count) abort();
  return words;
}

#if TILEOPS_HOST_CUDA
#define JUMP(group, to) tileops_recorder_##group.count = (to)
#else
#define JUMP(group, to) tileops_trace::recorders[group].count = tileops_trace::recorders[group].events = (to)
#define tileops_mark_u32 tileops_mark_i32
#endif

// Markers' sites and events are constants in generated code, so they are constants here. `way` is what follows the name
// of a marker that stands alone (0), waits for the next one (1), or is stored with the one that waited (2).
#define MARK_AS(way, suffix, group, site, events)                                                 \
  if (op[5] == way) {                                                                             \
    if (op[0] == kMark) tileops_mark##suffix(group, site, events);                                \
    if (op[0] == kMarkInt) tileops_mark##suffix##_i32(group, site, events, (int32_t)bits);        \
    if (op[0] == kMarkUnsigned) tileops_mark##suffix##_i32(group, site, events, HOST_UNSIGNED(bits)); \
    if (op[0] == kMarkFloat) tileops_mark##suffix##_f32(group, site, events, payload);            \
  }
#define MARK(group, site, events)                           \
  if (op[1] == group && op[2] == site && op[3] == events) { \
    float payload;                                          \
    const uint32_t bits = (uint32_t)op[4];                  \
    __builtin_memcpy(&payload, &bits, 4);                   \
    MARK_AS(0, , group, site, events)                       \
    MARK_AS(1, _held, group, site, events)                  \
    MARK_AS(2, _paired, group, site, events)                \
    continue;                                               \
  }
#define MARKS(group) \
  MARK(group, 0, 1) MARK(group, 1, 2) MARK(group, 300, 3) MARK(group, 65535, 1)
#if TILEOPS_HOST_CUDA
#define HOST_UNSIGNED(bits) (bits)
#else
#define HOST_UNSIGNED(bits) (int32_t)(bits)
#endif

// One thread's way through one block.
template <int kCapacity, int kBytes0, int kBytes1, int kKeepLast>
static void block(int64_t *row0, int64_t *row1, const int64_t *&op, int recorded, int gx, int gy, int gz) {
  tileops_open(0, kCapacity, kBytes0, kKeepLast, 5, 8, row0, recorded, gx, gy, gz);
  tileops_open(1, kCapacity, kBytes1, kKeepLast, 19, 8, row1, recorded, gx, gy, gz);
  for (;; op += 6) {
    if (op[0] == kLeave) return;
    if (op[0] == kEnd) break;
    if (op[0] == kJump) {
      if (op[1] == 0) JUMP(0, (uint32_t)op[2]);
      if (op[1] == 1) JUMP(1, (uint32_t)op[2]);
      continue;
    }
    MARKS(0)
    MARKS(1)
    abort();
  }
  tileops_close(0);
  tileops_close(1);
}

template <int kCapacity, int kKeepLast>
static void with_bytes(int bytes0, int bytes1, int64_t *row0, int64_t *row1, const int64_t *&op, int recorded,
                       int64_t *grid) {
  const int gx = (int)grid[0], gy = (int)grid[1], gz = (int)grid[2];
  if (bytes0 == 8 && bytes1 == 16) block<kCapacity, 8, 16, kKeepLast>(row0, row1, op, recorded, gx, gy, gz);
  if (bytes0 == 16 && bytes1 == 8) block<kCapacity, 16, 8, kKeepLast>(row0, row1, op, recorded, gx, gy, gz);
}

int main() {
  // Words of the buffer, capacity, bytes of a record in either group, runs of a thread, the grid, the clock, whether
  // rows keep their last records.
  std::vector<int64_t> head = read_words(11);
  std::vector<int64_t> initial = read_words((size_t)head[0]);
  // Of the exact size, so that the sanitizer sees what lies beside it.
  int64_t *buffer = (int64_t *)aligned_alloc(64, (size_t)head[0] * 8);
  for (size_t at = 0; at < initial.size(); ++at) buffer[at] = initial[at];
#if TILEOPS_HOST_CUDA
  host_ptx::clock_at = (uint64_t)head[8];
  host_ptx::clock_step = (uint64_t)head[9];
  host_ptx::sm = 131;
#endif
  for (int64_t run = 0; run < head[4]; ++run) {
    // Where the two rows lie, thread and block, whether the block is recorded, operations.
    std::vector<int64_t> where = read_words(9);
    std::vector<int64_t> ops = read_words((size_t)where[8] * 6);
#if TILEOPS_HOST_CUDA
    threadIdx = {(unsigned)where[2], (unsigned)where[3], (unsigned)where[4]};
    blockDim = {(unsigned)where[5], (unsigned)where[6], 1};
    host_ptx::timer_at = (uint64_t)run * 32;
#endif
    const int64_t *op = ops.data();
    int64_t *row0 = buffer + where[0], *row1 = buffer + where[1];
#define WITH_CAPACITY(capacity, keep_last)                                                             \
  if (head[1] == capacity && head[10] == keep_last) {                                                  \
    with_bytes<capacity, keep_last>((int)head[2], (int)head[3], row0, row1, op, (int)where[7], &head[5]); \
    continue;                                                                                          \
  }
    WITH_CAPACITY(1, 0)
    WITH_CAPACITY(3, 0)
    WITH_CAPACITY(16, 0)
    WITH_CAPACITY(1, 1)
    WITH_CAPACITY(4, 1)
    WITH_CAPACITY(16, 1)
    abort();
  }
  fwrite(buffer, 8, (size_t)head[0], stdout);
  free(buffer);
  return 0;
}
