// Drives a device recorder on the host, as a kernel's generated code does. Built once for each recorder, which the
// build names with -include, by test_recorder_host.py; it describes the words on standard input and output.

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <vector>

enum Op { kMark, kMarkInt, kMarkUnsigned, kMarkFloat, kJump, kLeave, kEnd, kSettle, kFlush, kFirst };

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

// What only the CUDA recorder has: a record whose site is told apart from its clock, and a store of held ones alone.
#if TILEOPS_HOST_CUDA
#define LATE_AS(way, place, group)                                                                             \
  if (op[5] == way) {                                                                                          \
    if (op[0] == kMark) tileops_mark_late##place(group, events);                                               \
    if (op[0] == kMarkInt) tileops_mark_late##place##_i32(group, events, (int32_t)bits);                       \
    if (op[0] == kMarkUnsigned) tileops_mark_late##place##_i32(group, events, HOST_UNSIGNED(bits));            \
    if (op[0] == kMarkFloat) abort();                                                                          \
  }                                                                                                            \
  if (op[0] == kFirst && op[2] == place) tileops_first##place(group, (int32_t)op[3], (int32_t)op[4]);          \
  if (op[0] == kSettle && op[2] == place) tileops_settle##place(group, (int32_t)op[3]);
#define LATE(group)    \
  LATE_AS(7, 0, group) \
  LATE_AS(8, 1, group) \
  LATE_AS(9, 2, group)
#define STORES(group)                                              \
  if (op[0] == kFlush && op[2] == 1) tileops_flush1(group);        \
  if (op[0] == kFlush && op[2] == 2) tileops_flush2(group);        \
  if (op[0] == kFlush && op[2] == 3) tileops_flush3(group);
#else
#define LATE(group)
#define STORES(group)
#endif

// `way` is what follows the name of a marker: one that stores its record alone, that holds it as the first, second or
// third of a batch, or that stores it with the one, two or three that were held.
#define MARK_AS(way, suffix, group)                                                                         \
  if (op[5] == way) {                                                                                       \
    if (op[0] == kMark) tileops_mark##suffix(group, site, events);                                          \
    if (op[0] == kMarkInt) tileops_mark##suffix##_i32(group, site, events, (int32_t)bits);                  \
    if (op[0] == kMarkUnsigned) tileops_mark##suffix##_i32(group, site, events, HOST_UNSIGNED(bits));       \
    if (op[0] == kMarkFloat) tileops_mark##suffix##_f32(group, site, events, payload);                      \
  }
#define MARKS(group)                                  \
  if (op[1] == group) {                               \
    const int32_t site = (int32_t)op[2], events = (int32_t)op[3]; \
    float payload;                                    \
    const uint32_t bits = (uint32_t)op[4];            \
    __builtin_memcpy(&payload, &bits, 4);             \
    MARK_AS(0, , group)                               \
    MARK_AS(1, _held0, group)                         \
    MARK_AS(2, _held1, group)                         \
    MARK_AS(3, _held2, group)                         \
    MARK_AS(4, _store2, group)                        \
    MARK_AS(5, _store3, group)                        \
    MARK_AS(6, _store4, group)                        \
    LATE(group)                                       \
    STORES(group)                                     \
    continue;                                         \
  }
#if TILEOPS_HOST_CUDA
#define HOST_UNSIGNED(bits) (bits)
#else
#define HOST_UNSIGNED(bits) (int32_t)(bits)
#endif

// One thread's way through one block: a function of its own for each kind of row, no template, as in generated code.
typedef void Block(int64_t *row0, int64_t *row1, const int64_t *op, int recorded, int gx, int gy, int gz);
#define BLOCK(name, capacity, bytes0, bytes1, keep_last)                                                   \
  static void name(int64_t *row0, int64_t *row1, const int64_t *op, int recorded, int gx, int gy, int gz) { \
    tileops_open(0, capacity, bytes0, keep_last, 5, 8, row0, recorded, gx, gy, gz);                        \
    tileops_open(1, capacity, bytes1, keep_last, 19, 8, row1, recorded, gx, gy, gz);                       \
    for (;; op += 6) {                                                                                     \
      if (op[0] == kLeave) return;                                                                         \
      if (op[0] == kEnd) break;                                                                            \
      if (op[0] == kJump) {                                                                                \
        if (op[1] == 0) JUMP(0, (uint32_t)op[2]);                                                          \
        if (op[1] == 1) JUMP(1, (uint32_t)op[2]);                                                          \
        continue;                                                                                          \
      }                                                                                                    \
      MARKS(0)                                                                                             \
      MARKS(1)                                                                                             \
      abort();                                                                                             \
    }                                                                                                      \
    tileops_close(0);                                                                                      \
    tileops_close(1);                                                                                      \
  }
#define BLOCKS(name, capacity, keep_last)              \
  BLOCK(name##_payloads1, capacity, 8, 16, keep_last) \
  BLOCK(name##_payloads0, capacity, 16, 8, keep_last)
BLOCKS(first1, 1, 0)
BLOCKS(first3, 3, 0)
BLOCKS(first16, 16, 0)
BLOCKS(last1, 1, 1)
BLOCKS(last4, 4, 1)
BLOCKS(last16, 16, 1)

static Block *block_of(int64_t capacity, int64_t bytes0, int64_t keep_last) {
#define FOUND(name, its_capacity, its_keep_last)               \
  if (capacity == its_capacity && keep_last == its_keep_last) \
    return bytes0 == 8 ? name##_payloads1 : name##_payloads0;
  FOUND(first1, 1, 0)
  FOUND(first3, 3, 0)
  FOUND(first16, 16, 0)
  FOUND(last1, 1, 1)
  FOUND(last4, 4, 1)
  FOUND(last16, 16, 1)
  abort();
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
    Block *block = block_of(head[1], head[2], head[10]);
    block(buffer + where[0], buffer + where[1], ops.data(), (int)where[7], (int)head[5], (int)head[6], (int)head[7]);
  }
  fwrite(buffer, 8, (size_t)head[0], stdout);
  free(buffer);
  return 0;
}
