// Runs the recorder's inline PTX on the host: test_recorder_host.py turns each asm statement of recorder.cuh into a call
// of host_ptx::run(template, outputs, inputs). It knows the instructions that the recorder uses, one at a time, as the
// PTX manual defines them, and ends the program at any other.

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <map>
#include <string>
#include <vector>

#define __device__
#define __forceinline__ inline

struct Dim3 {
  unsigned int x, y, z;
};
static Dim3 threadIdx, blockDim;
static inline unsigned int __float_as_uint(float value) {
  unsigned int bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

namespace host_ptx {

static uint64_t clock_at, timer_at, clock_step;
static uint32_t sm;

[[noreturn]] static void fail(const std::string &what) {
  fprintf(stderr, "host_ptx: %s\n", what.c_str());
  exit(2);
}

// A 32- or 64-bit register, known by name.
struct Machine {
  std::vector<uint64_t *> outputs;
  std::vector<uint64_t> inputs;
  std::map<std::string, uint64_t> registers;

  uint64_t read(const std::string &operand) const {
    if (operand == "%%clock64") return clock_at += clock_step;
    if (operand == "%%globaltimer") return timer_at;
    if (operand == "%%smid") return sm;
    if (operand[0] == '%') {
      const size_t number = std::stoul(operand.substr(1));
      if (number < outputs.size()) return *outputs[number];
      if (number - outputs.size() >= inputs.size()) fail("no operand " + operand);
      return inputs[number - outputs.size()];
    }
    if (isdigit(operand[0])) return std::stoull(operand, nullptr, 0);
    const auto found = registers.find(operand);
    if (found == registers.end()) fail("register read before it is written: " + operand);
    return found->second;
  }

  void write(const std::string &operand, uint64_t value, int bits) {
    if (bits == 32) value = (uint32_t)value;
    if (operand[0] != '%') {
      registers[operand] = value;
    } else {
      const size_t number = std::stoul(operand.substr(1));
      if (number >= outputs.size()) fail("writes an input: " + operand);
      *outputs[number] = value;
    }
  }

  // "[base + offset]"
  unsigned char *address(const std::string &operand) const {
    const size_t plus = operand.find('+');
    const std::string base = operand.substr(1, (plus == std::string::npos ? operand.size() - 1 : plus) - 1);
    const uint64_t offset = plus == std::string::npos ? 0 : std::stoull(operand.substr(plus + 1), nullptr, 0);
    return (unsigned char *)(read(base) + offset);
  }
};

static std::vector<std::string> split(const std::string &text, char at) {
  std::vector<std::string> parts(1);
  int depth = 0;
  for (char c : text) {
    depth += (c == '{' || c == '[') - (c == '}' || c == ']');
    if (c == at && depth == 0) parts.emplace_back();
    else parts.back() += c;
  }
  return parts;
}

static std::string bare(const std::string &text) {
  std::string kept;
  for (char c : text)
    if (!isspace((unsigned char)c)) kept += c;
  return kept;
}

static std::vector<std::string> braced(const std::string &operand) {
  if (operand.size() < 2 || operand[0] != '{') fail("expected {...}: " + operand);
  return split(operand.substr(1, operand.size() - 2), ',');
}

static int bits_of(const std::string &name) { return name.substr(name.size() - 2) == "64" ? 64 : 32; }

static void step(Machine &m, std::string line) {
  while (!line.empty() && isspace((unsigned char)line[0])) line.erase(0, 1);
  if (line.empty() || line.rfind(".reg", 0) == 0) return;
  if (line[0] == '@') {
    const size_t end = line.find(' ');
    if (!m.read(line.substr(1, end - 1))) return;
    return step(m, line.substr(end));
  }
  const size_t space = line.find(' ');
  const std::string name = line.substr(0, space);
  const std::vector<std::string> o = split(bare(line.substr(space)), ',');
  if (name == "mov.b64" && o[0][0] == '{') {
    const auto halves = braced(o[0]);
    const uint64_t value = m.read(o[1]);
    m.write(halves[0], value, 32);
    m.write(halves[1], value >> 32, 32);
  } else if (name == "mov.b64" && o[1][0] == '{') {
    const auto halves = braced(o[1]);
    m.write(o[0], m.read(halves[1]) << 32 | (uint32_t)m.read(halves[0]), 64);
  } else if (name == "mov.u64" || name == "mov.u32" || name == "mov.b64" || name == "mov.b32") {
    m.write(o[0], m.read(o[1]), bits_of(name));
  } else if (name == "add.u32" || name == "add.u64" || name == "add.s32" || name == "add.s64") {
    m.write(o[0], m.read(o[1]) + m.read(o[2]), bits_of(name));
  } else if (name == "setp.lt.u32") {
    m.write(o[0], (uint32_t)m.read(o[1]) < (uint32_t)m.read(o[2]), 32);
  } else if (name == "setp.ne.u32" || name == "setp.ne.s32" || name == "setp.ne.b32") {
    m.write(o[0], (uint32_t)m.read(o[1]) != (uint32_t)m.read(o[2]), 32);
  } else if (name == "mad.wide.u32") {
    m.write(o[0], (uint64_t)(uint32_t)m.read(o[1]) * (uint32_t)m.read(o[2]) + m.read(o[3]), 64);
  } else if (name == "st.global.b64" || name == "st.global.u64") {
    const uint64_t value = m.read(o[1]);
    memcpy(m.address(o[0]), &value, 8);
  } else if (name.rfind("st.global.v", 0) == 0) {
    const int bytes = bits_of(name) / 8;
    const auto values = braced(o[1]);
    if ((int)values.size() != name[11] - '0') fail("a vector of another length: " + line);
    unsigned char *to = m.address(o[0]);
    if ((uint64_t)to % (bytes * values.size())) fail("a vector store that is not aligned: " + line);
    for (size_t at = 0; at < values.size(); ++at) {
      const uint64_t value = m.read(values[at]);
      memcpy(to + at * bytes, &value, bytes);
    }
  } else {
    fail("unknown instruction: " + line);
  }
}

// Outputs are widened by their caller; see OUT in test_recorder_host.py.
static void run(const char *text, std::vector<uint64_t *> outputs, std::vector<uint64_t> inputs) {
  Machine machine{outputs, inputs, {}};
  std::string body(text);
  const size_t open = body.find_first_not_of(" \t\n");
  if (body[open] == '{') body = body.substr(open + 1, body.rfind('}') - open - 1);
  for (const std::string &line : split(body, ';')) step(machine, line);
}

}  // namespace host_ptx
