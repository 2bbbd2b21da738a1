// SPDX-License-Identifier: Apache-2.0
// Random valid Programs, for tests of every layer that reads Programs.
#pragma once

#include <algorithm>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "program/program.h"
#include "tensor/shape.h"

namespace npugraph::program::testing {

struct RandomProgramOptions {
  int32_t tasks = 20;
  bool heap = true;             // some results are allocated by their task
  bool defined_symbols = true;  // some tasks define a size that later tasks use
  bool mutation = true;         // some tasks write an input
};

// The tasks are of kind aten and of three names; all tensors are f32, of shapes [8], [s0], [s0, 8], [2, s0] or
// [u<task>]:
//   test.mix      writes or updates its last operand from the ones before
//   test.count    reads operand 0 and returns a scalar, u<task>
//   test.compact  writes operand 1, a heap buffer whose size u<task> it defines, from operand 0
class RandomProgram {
 public:
  RandomProgram(uint32_t seed, RandomProgramOptions options) : random_(seed), options_(options) {}

  // A Program as a front end makes it: lives, releases, segments and the classes of late buffers are not filled in.
  Program unplanned() {
    program_.name = "random";
    add_inputs();
    for (int32_t i = 0; i < options_.tasks; ++i) add_task(i);
    add_outputs();
    return std::move(program_);
  }

 private:
  using Shape = std::vector<Expr>;

  int32_t pick(int32_t below) { return std::uniform_int_distribution<int32_t>(0, below - 1)(random_); }
  bool chance(int percent) { return pick(100) < percent; }

  std::vector<Dim> dims(const std::vector<Expr>& exprs) {
    std::vector<Dim> out;
    for (const Expr& e : exprs) out.push_back(program_.dim(e));
    return out;
  }

  int32_t add_buffer(BufferClass cls, const Shape& shape, int32_t source = kNone) {
    Buffer buffer;
    buffer.cls = cls;
    buffer.source = source;
    buffer.name = "v" + std::to_string(program_.buffers.size());
    if (cls != BufferClass::kHeap) buffer.bytes = program_.dim(numel(shape) * Expr(4));
    program_.buffers.push_back(buffer);
    shapes_.push_back(shape);
    return static_cast<int32_t>(program_.buffers.size()) - 1;
  }

  Operand window(int32_t buffer, Access access) {
    const Shape& shape = shapes_[buffer];
    Operand operand;
    operand.buffer = buffer;
    operand.access = access;
    operand.sizes = dims(shape);
    operand.strides = dims(contiguous_strides(shape));
    if (shape.size() == 2 && shape[1].is_int(8) && access == Access::kRead && chance(30)) {
      operand.byte_offset = {16};
      operand.sizes[1] = {4};
    }
    return operand;
  }

  void add_inputs() {
    program_.symbols.push_back({.name = "s0", .kind = ScalarKind::kInt, .input = 0, .dim = 0, .task = kNone});
    const Expr s0 = Expr::symbol("s0");
    known_shapes_ = {{8}, {s0}, {s0, 8}, {2, s0}};
    for (int32_t i = 0; i < 3; ++i) {
      const Shape shape = i == 0 ? Shape{s0, 8} : known_shapes_[pick(4)];
      Input input;
      input.source = "L['x" + std::to_string(i) + "']";
      input.buffer = add_buffer(i == 2 ? BufferClass::kParameter : BufferClass::kInput, shape, i);
      input.sizes = dims(shape);
      input.strides = dims(contiguous_strides(shape));
      program_.inputs.push_back(input);
      readable_.push_back(input.buffer);
    }
    add_constant();
  }

  void add_constant() {
    auto data = std::make_shared<std::vector<float>>(8);
    std::iota(data->begin(), data->end(), 0.5f);
    Constant constant;
    constant.name = "table";
    constant.sizes = {8};
    constant.strides = {1};
    constant.bytes = 32;
    constant.data = data->data();
    constant.owner = data;
    program_.constants.push_back(constant);
    readable_.push_back(add_buffer(BufferClass::kConstant, {8}, 0));
  }

  void add_task(int32_t index) {
    Task task;
    task.origin = "node_" + std::to_string(index);
    task.source = "model.py:" + std::to_string(index) + " in forward";
    if (options_.defined_symbols && chance(10)) {
      chance(50) ? add_count(task, index) : add_compact(task, index);
    } else {
      add_mix(task);
    }
    program_.tasks.push_back(std::move(task));
  }

  int32_t some_buffer() {  // recent ones more often, so that lives end
    const auto size = static_cast<int32_t>(readable_.size());
    return readable_[chance(70) ? size - 1 - pick(std::min(size, 4)) : pick(size)];
  }

  void read(Task& task, int32_t buffer) {
    task.args.push_back(TensorRef{static_cast<int32_t>(task.operands.size())});
    task.operands.push_back(window(buffer, Access::kRead));
  }

  void add_mix(Task& task) {
    task.name = "test.mix";
    for (int32_t i = pick(3); i >= 0; --i) read(task, some_buffer());
    task.args.push_back(Expr::symbol("s0") + Expr(pick(3)));
    task.scalars.push_back(program_.dim(std::get<Expr>(task.args.back())).expr);
    if (options_.mutation && chance(10)) {
      task.operands.push_back(window(pick(2), Access::kReadWrite));
      return;
    }
    const bool heap = options_.heap && chance(20);
    const Shape shape = known_shapes_[pick(static_cast<int32_t>(known_shapes_.size()))];
    const int32_t result = add_buffer(heap ? BufferClass::kHeap : BufferClass::kArena, shape);
    write(task, result);
  }

  void write(Task& task, int32_t buffer) {
    task.results = {static_cast<int32_t>(task.operands.size())};
    task.operands.push_back(window(buffer, Access::kWrite));
    task.operands.back().copied = chance(20);
    readable_.push_back(buffer);
  }

  std::string define(Task& task, int32_t index, int32_t operand, int32_t dim) {
    Symbol symbol;
    symbol.name = "u" + std::to_string(index);
    symbol.task = index;
    task.defines.push_back({static_cast<int32_t>(program_.symbols.size()), operand, dim, dim == kNone ? 0 : kNone});
    program_.symbols.push_back(symbol);
    known_shapes_.push_back({Expr::symbol(symbol.name)});
    return symbol.name;
  }

  void add_count(Task& task, int32_t index) {
    task.name = "test.count";
    read(task, some_buffer());
    define(task, index, kNone, kNone);
  }

  void add_compact(Task& task, int32_t index) {
    task.name = "test.compact";
    read(task, some_buffer());
    const std::string symbol = define(task, index, 1, 0);
    write(task, add_buffer(BufferClass::kHeap, {Expr::symbol(symbol)}));
  }

  void add_outputs() {
    for (int32_t i = 0; i < 2; ++i) {
      Output output;
      output.kind = Output::Kind::kTensor;
      output.tensor = window(readable_[readable_.size() - 1 - i], Access::kRead);
      Buffer& buffer = program_.buffers[output.tensor.buffer];
      if (buffer.cls == BufferClass::kArena) buffer.cls = BufferClass::kOutput;
      const bool of_input = buffer.cls == BufferClass::kInput || buffer.cls == BufferClass::kParameter;
      if (of_input) output.input = buffer.source;
      program_.outputs.push_back(output);
    }
    program_.outputs.push_back({.kind = Output::Kind::kInput, .tensor = {}, .input = 1, .scalar = {}});
    Output scalar;
    scalar.kind = Output::Kind::kScalar;
    scalar.scalar = program_.dim(Expr::symbol("s0") * Expr(3));
    program_.outputs.push_back(scalar);
    program_.outputs.push_back({});
  }

  std::mt19937 random_;
  RandomProgramOptions options_;
  Program program_;
  std::vector<Shape> shapes_;        // per buffer
  std::vector<Shape> known_shapes_;  // shapes of results that a task may write next
  std::vector<int32_t> readable_;
};

// A slow and obvious plan: every fact is found by looking at everything.
inline void plan_slowly(Program& program) {
  const std::vector<int32_t> definitions = defining_tasks(program);
  const auto num_tasks = static_cast<int32_t>(program.tasks.size());
  for (int32_t b = 0; b < static_cast<int32_t>(program.buffers.size()); ++b) {
    Buffer& buffer = program.buffers[b];
    const auto uses = [&](const Operand& operand) { return operand.buffer == b; };
    const auto writes = [&](const Operand& operand) { return operand.buffer == b && operand.access != Access::kRead; };
    const bool returned = std::any_of(program.outputs.begin(), program.outputs.end(), [&](const Output& output) {
      return output.kind == Output::Kind::kTensor && output.tensor.buffer == b;
    });
    bool written = false;
    for (int32_t t = 0; t < num_tasks; ++t) {
      const auto& operands = program.tasks[t].operands;
      if (std::none_of(operands.begin(), operands.end(), uses)) continue;
      if (buffer.first_task == kNone) buffer.first_task = t;
      buffer.last_task = returned ? num_tasks - 1 : t;
      written = written || std::any_of(operands.begin(), operands.end(), writes);
    }
    if (buffer.cls == BufferClass::kInput || buffer.cls == BufferClass::kParameter) {
      program.inputs[buffer.source].mutated = written;
    }
    if (buffer.cls == BufferClass::kArena && !buffer.bytes.is_constant() && definitions[buffer.bytes.expr] != kNone) {
      buffer.cls = BufferClass::kHeap;
      buffer.preallocated = true;
    }
    const bool dies = buffer.cls == BufferClass::kHeap && !returned && buffer.last_task != kNone;
    if (dies) program.tasks[buffer.last_task].releases.push_back(b);
  }
  for (int32_t t = 0; t < num_tasks; ++t) {
    if (!program.tasks[t].defines.empty() || t + 1 == num_tasks) program.segments.push_back(t + 1);
  }
  if (num_tasks == 0) program.segments.push_back(0);
}

inline Program random_unplanned_program(uint32_t seed, RandomProgramOptions options = {}) {
  return RandomProgram(seed, options).unplanned();
}

inline Program random_program(uint32_t seed, RandomProgramOptions options = {}) {
  Program program = random_unplanned_program(seed, options);
  plan_slowly(program);
  return program;
}

}  // namespace npugraph::program::testing
