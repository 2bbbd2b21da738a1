// SPDX-License-Identifier: Apache-2.0
#include "device/capture/recorded_program.h"

#include <algorithm>
#include <cstdint>
#include <unordered_map>
#include <utility>

#include "backend/bridge/convert.h"
#include "backend/bridge/task_makers.h"
#include "backend/bridge/torch_host.h"
#include "base/error.h"
#include "device/capture/registry.h"
#include "device/capture/replay.h"
#include "plan/plan.h"

namespace npugraph::capture {

using program::BufferClass;
using program::kNone;

namespace {

uintptr_t begin_of(const c10::Storage& storage) { return reinterpret_cast<uintptr_t>(storage.data()); }

// The place of a piece of memory in the Program.
struct Place {
  int32_t buffer = kNone;
  int64_t offset = 0;  // in bytes
};

class Builder {
 public:
  Builder(std::string name, const TouchedMemory& memory) : memory_(memory) { program_.name = std::move(name); }

  void add_memory(const std::vector<RecordedTask>& launches);
  void add_tasks(std::vector<RecordedTask>& launches);
  program::Program finish() {
    plan::plan(program_);
    return std::move(program_);
  }
  std::vector<ExternalMemory> take_external() { return std::move(external_); }

 private:
  void add_external(std::vector<int32_t> pieces);
  void add_input(uintptr_t begin, uintptr_t end, c10::Device device);
  void add_constant(int32_t piece);
  void add_intermediate(int32_t piece);
  int32_t add_buffer(BufferClass cls, int64_t bytes, int32_t source, c10::Device device);

  const TouchedMemory& memory_;
  program::Program program_;
  std::vector<ExternalMemory> external_;
  std::unordered_map<int32_t, Place> places_;
};

int32_t Builder::add_buffer(BufferClass cls, int64_t bytes, int32_t source, c10::Device device) {
  program::Buffer buffer;
  buffer.cls = cls;
  buffer.bytes = {bytes};
  buffer.source = source;
  buffer.device = bridge::from_torch(device);
  program_.buffers.push_back(std::move(buffer));
  return static_cast<int32_t>(program_.buffers.size()) - 1;
}

void Builder::add_memory(const std::vector<RecordedTask>& launches) {
  std::vector<int32_t> external;
  for (const RecordedTask& launch : launches) {
    for (const program::Operand& operand : launch.task.operands) {
      if (!places_.try_emplace(operand.buffer).second) continue;
      if (memory_.piece(operand.buffer).constant.defined()) {
        add_constant(operand.buffer);
      } else if (memory_.is_intermediate(operand.buffer)) {
        add_intermediate(operand.buffer);
      } else {
        external.push_back(operand.buffer);
      }
    }
  }
  add_external(std::move(external));
}

// Storages that overlap become one input, because tasks must see the overlap.
void Builder::add_external(std::vector<int32_t> pieces) {
  const auto begin = [&](int32_t piece) { return begin_of(memory_.piece(piece).held); };
  std::ranges::stable_sort(pieces, {}, begin);
  uintptr_t first = 0, end = 0;
  const auto close = [&](int32_t piece) { add_input(first, end, memory_.piece(piece).device); };
  for (size_t i = 0; i < pieces.size(); ++i) {
    const c10::Storage& storage = memory_.piece(pieces[i]).held;
    const uintptr_t own_end = begin(pieces[i]) + storage.nbytes();
    if (i == 0 || begin(pieces[i]) >= end) {
      if (i != 0) close(pieces[i - 1]);
      first = begin(pieces[i]);
      end = own_end;
      external_.emplace_back();
    }
    end = std::max(end, own_end);
    external_.back().storages.push_back(storage);
    // The buffer that close() will make.
    places_[pieces[i]] = {static_cast<int32_t>(program_.buffers.size()),
                          static_cast<int64_t>(begin(pieces[i]) - first)};
  }
  if (!pieces.empty()) close(pieces.back());
}

void Builder::add_input(uintptr_t begin, uintptr_t end, c10::Device device) {
  const auto bytes = static_cast<int64_t>(end - begin);
  const auto number = static_cast<int32_t>(program_.inputs.size());
  program::Input input;
  input.source = cat("memory ", number);
  input.dtype = DType::kU8;
  input.sizes = {program::Dim{bytes}};
  input.strides = {program::Dim{1}};
  input.buffer = add_buffer(BufferClass::kInput, bytes, number, device);
  program_.inputs.push_back(std::move(input));
}

void Builder::add_constant(int32_t piece) {
  const at::Tensor& tensor = memory_.piece(piece).constant;
  const auto data = bridge::constant_of(tensor);
  program::Constant constant;
  constant.name = cat("number", program_.constants.size());
  constant.dtype = *bridge::from_torch(tensor.scalar_type());
  constant.bytes = data.bytes;
  constant.owner = data.owner;
  constant.data = data.data;
  const auto number = static_cast<int32_t>(program_.constants.size());
  places_[piece] = {add_buffer(BufferClass::kConstant, data.bytes, number, c10::kCPU), 0};
  program_.constants.push_back(std::move(constant));
}

void Builder::add_intermediate(int32_t piece) {
  const TouchedPiece& memory = memory_.piece(piece);
  places_[piece] = {add_buffer(BufferClass::kHeap, memory.bytes, kNone, memory.device), 0};
}

void Builder::add_tasks(std::vector<RecordedTask>& launches) {
  for (RecordedTask& launch : launches) {
    for (program::Operand& operand : launch.task.operands) {
      const Place& place = places_.at(operand.buffer);
      operand.buffer = place.buffer;
      operand.byte_offset.constant += place.offset;
    }
    program_.tasks.push_back(std::move(launch.task));
  }
}

// Launches -> Program, and the memory of each of its inputs. Memory with an address becomes an input, which is a whole
// storage; intermediates become heap buffers.
std::pair<std::shared_ptr<const program::Program>, std::vector<ExternalMemory>> build_program(
    std::string name, std::vector<RecordedTask>& launches, const TouchedMemory& memory) {
  Builder builder(std::move(name), memory);
  builder.add_memory(launches);
  builder.add_tasks(launches);
  auto external = builder.take_external();
  return {std::make_shared<const program::Program>(builder.finish()), std::move(external)};
}

// Makes the tasks of launches, which may have arguments that a Program cannot hold.
runtime::MakeTask maker_of(const std::vector<RecordedTask>& launches) {
  return [&](const program::Program& program, const program::Task& task) {
    const RecordedTask& launch = launches[&task - program.tasks.data()];
    if (launch.collective) return launch.collective->build(launch.collective, program, task);
    return launch.fixed.empty() ? bridge::make_task(program, task)
                                : bridge::build_aten_task(program, task, launch.fixed);
  };
}

}  // namespace

RecordedProgram::RecordedProgram(std::string name, RecordedStep step, const TouchedMemory& memory) {
  auto [program, external] = build_program(name, step.launches, memory);
  external_ = std::move(external);
  program_ = std::move(program);
  executable_ = std::make_unique<runtime::Executable>(program_, bridge::TorchHost::instance(), maker_of(step.launches),
                                                      runtime::Options{}, std::move(name));
  bound_.resize(external_.size());
}

void RecordedProgram::bind() {
  bool moved = version_ == 0;
  for (size_t i = 0; i < external_.size(); ++i) {
    c10::StorageImpl* storage = external_[i].storages.front().unsafeGetStorageImpl();
    void* data = storage->_mutable_data_ptr_no_checks().get();
    // Storages that overlap end where the last of them ends, and have not been resized.
    const auto bytes = external_[i].storages.size() == 1 ? static_cast<int64_t>(storage->nbytes())
                                                         : program().inputs[i].sizes.front().constant;
    moved |= bound_[i].data != data || bound_[i].capacity != bytes;
    bound_[i].data = data;
    bound_[i].capacity = bytes;
    bound_[i].sizes = &program().inputs[i].sizes.front().constant;
  }
  if (moved) ++version_;
}

void RecordedProgram::run(c10::Stream stream) {
  bind();
  const Inside inside;
  const runtime::CallingStream calling{.id = stream.id(), .device = stream.device_index(), .limits = {}};
  check_replay(executable_->run({.all = bound_, .version = version_, .stream = calling}, {}, dims_), program());
}

}  // namespace npugraph::capture
