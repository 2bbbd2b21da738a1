// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "program/task_order.h"
#include "program/verifier.h"

namespace npugraph::program {
namespace {

class PlanVerifier : Verifier {
 public:
  explicit PlanVerifier(const Program& program) : Verifier(program) {}

  void check() {
    check_segments();
    check_lives();
    check_strands();
    check_releases();
    check_mutated();
  }

 private:
  void check_segments();
  void check_lives();
  void check_strands();
  void check_releases();
  void check_mutated();
  std::vector<bool> returned_buffers() const;
};

void PlanVerifier::check_segments() {
  place_ = "segments";
  std::vector<bool> ends(program_.tasks.size() + 1, false);
  int32_t begin = program_.tasks.empty() ? -1 : 0;
  for (const int32_t end : program_.segments) {
    if (end <= begin || end > count(program_.tasks)) fail("one ends at ", end, " after one that ends at ", begin);
    ends[end] = true;
    begin = end;
  }
  if (!ends[program_.tasks.size()]) fail("the last one does not end with the last task");
  for (int32_t i = 0; i < count(program_.tasks); ++i) {
    if (!program_.tasks[i].defines.empty() && !ends[i + 1])
      fail("none ends after task ", i, ", which defines a symbol");
  }
}

std::vector<bool> PlanVerifier::returned_buffers() const {
  std::vector<bool> returned(program_.buffers.size(), false);
  for (const Output& output : program_.outputs) {
    if (output.kind == Output::Kind::kTensor) returned[output.tensor.buffer] = true;
  }
  return returned;
}

void PlanVerifier::check_lives() {
  for (int32_t i = 0; i < count(program_.buffers); ++i) {
    at("buffer", i);
    const Buffer& buffer = program_.buffers[i];
    if (buffer.first_task == kNone && buffer.last_task == kNone) continue;
    if (!has(program_.tasks, buffer.first_task) || !has(program_.tasks, buffer.last_task) ||
        buffer.first_task > buffer.last_task) {
      fail("its life is (", buffer.first_task, ", ", buffer.last_task, ")");
    }
  }
  std::vector<bool> touched(program_.buffers.size(), false);
  for (int32_t i = 0; i < count(program_.tasks); ++i) {
    at("task", i);
    for (const Operand& operand : program_.tasks[i].operands) {
      const Buffer& buffer = program_.buffers[operand.buffer];
      if (i < buffer.first_task || i > buffer.last_task) {
        fail("touches buffer ", operand.buffer, ", whose life is (", buffer.first_task, ", ", buffer.last_task, ")");
      }
      const bool defined_by_task = buffer.cls == BufferClass::kHeap && !buffer.preallocated;
      if (defined_by_task && !touched[operand.buffer] && (operand.access != Access::kWrite || i != buffer.first_task)) {
        fail("uses heap buffer ", operand.buffer, " before a task has written it");
      }
      touched[operand.buffer] = true;
    }
  }
}

// Checks that memory which is reused after a life has ended is free by then, whichever stream is faster.
void PlanVerifier::check_strands() {
  if (!has_streams(program_)) return;
  const TaskOrder order(program_);
  const auto touches = order.last_touches();
  for (int32_t b = 0; b < count(program_.buffers); ++b) {
    at("buffer", b);
    const Buffer& buffer = program_.buffers[b];
    if (buffer.first_task == kNone || touches[b].empty()) continue;
    const bool released = buffer.cls == BufferClass::kHeap;
    const int32_t end = released ? order.first_after(touches[b]) : order.last_beside(touches[b]);
    if (buffer.last_task < std::min(end, count(program_.tasks) - 1))
      fail("its life ends with task ", buffer.last_task, ", and task ", end, " runs beside those that touch it");
  }
  for (int32_t t = 0; t < count(program_.tasks); ++t) {
    at("task", t);
    for (const Operand& operand : program_.tasks[t].operands) {
      const Buffer& buffer = program_.buffers[operand.buffer];
      const bool made_by_task = buffer.cls == BufferClass::kHeap && !buffer.preallocated;
      if (made_by_task && t != buffer.first_task && !order.precedes(buffer.first_task, t))
        fail("does not wait for task ", buffer.first_task, ", which allocates buffer ", operand.buffer);
    }
  }
}

void PlanVerifier::check_releases() {
  std::vector<bool> settled = returned_buffers();
  for (int32_t i = 0; i < count(program_.tasks); ++i) {
    at("task", i);
    for (const int32_t released : program_.tasks[i].releases) {
      if (!has(program_.buffers, released)) fail("releases buffer ", released, " that is not there");
      const Buffer& buffer = program_.buffers[released];
      if (buffer.cls != BufferClass::kHeap || buffer.last_task != i)
        fail("releases buffer ", released, " that does not die there");
      if (settled[released]) fail("releases buffer ", released, " that is returned or released before");
      settled[released] = true;
    }
  }
  for (int32_t i = 0; i < count(program_.buffers); ++i) {
    at("buffer", i);
    const Buffer& buffer = program_.buffers[i];
    if (buffer.cls == BufferClass::kHeap && buffer.first_task != kNone && !settled[i]) fail("is never released");
  }
}

void PlanVerifier::check_mutated() {
  std::vector<bool> written(program_.buffers.size(), false);
  for (const Task& task : program_.tasks) {
    for (const Operand& operand : task.operands) {
      if (operand.access != Access::kRead) written[operand.buffer] = true;
    }
  }
  for (int32_t i = 0; i < count(program_.inputs); ++i) {
    at("input", i);
    const Input& input = program_.inputs[i];
    if (input.buffer != kNone && input.mutated != written[input.buffer]) {
      fail(input.mutated ? "is marked as mutated, but no task writes it" : "is written, but not marked as mutated");
    }
  }
}

}  // namespace

void verify_plan(const Program& program) { PlanVerifier(program).check(); }

}  // namespace npugraph::program
