// SPDX-License-Identifier: Apache-2.0
// What a call of an Executable takes and gives.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "program/program.h"
#include "tensor/core_limits.h"

namespace npugraph::runtime {

// One bound input. For scalars only `scalar` is set.
struct BoundInput {
  void* data = nullptr;
  void* object = nullptr;  // borrowed: the host's tensor
  ng_scalar scalar{};
  const int64_t* sizes = nullptr;    // read only for inputs with symbolic sizes
  const int64_t* strides = nullptr;  // read only where symbolic; null if the input has those of the Program
  int64_t storage_offset = 0;        // elements from the start of its memory to `data`
  int64_t capacity = INT64_MAX;      // bytes from `data` to the end of its memory
  void* storage = nullptr;           // borrowed: the argument of Host::hold()
};

// The device stream on which a call is made, and the core limits of that stream. Tasks on other streams of the graph,
// and tasks that have limits in the graph, follow those of the graph instead.
struct CallingStream {
  std::optional<int64_t> id;      // nullopt if the Program does not run on a device with streams
  std::optional<int32_t> device;  // index of the device; nullopt if `id` is
  CoreLimits limits;
};

// Memory of the caller for a result.
struct ResultMemory {
  void* object = nullptr;  // borrowed: an object of the host; null: the host allocates memory
  void* data = nullptr;
  int64_t bytes = 0;
};

// A value of BoundInputs::version that nobody else has.
uint64_t new_inputs_version();

// The inputs of a call.
struct BoundInputs {
  std::span<const BoundInput> all;
  // If not 0: calls with the same version have the same objects, addresses, capacities, storage offsets, sizes and
  // strides.
  uint64_t version = 0;
  int64_t staged_bytes = 0;  // bytes that the caller copied to make the inputs
  CallingStream stream;
  // Whether the call is a part of a captured graph of the host, whose replays repeat it: its Instance is kept, whatever
  // Options::capture says.
  bool in_captured_graph = false;
  // One entry per output, or none. Tasks write an output there if all of its buffer fits; whoever calls compares the
  // addresses and copies what is elsewhere. The memory must not overlap inputs.
  std::span<const ResultMemory> results;
  // Called between tasks, from the thread that runs them, when nothing reads the memory of input `input` any more: the
  // caller may free it. Null: inputs live as long as the call.
  void (*done_with)(void* caller, size_t input) = nullptr;
  void* caller = nullptr;
};

// One result. For tensors, `object` carries one reference that the caller owns, `byte_offset` is the place of the
// window in the object's memory, and sizes and strides are in the `dims` of the call. Which input it is, or is a window
// of, says program::Output::input.
struct BoundOutput {
  program::Output::Kind kind = program::Output::Kind::kNone;
  void* object = nullptr;
  void* data = nullptr;  // the first element of the window
  int64_t byte_offset = 0;
  std::span<const int64_t> sizes;
  std::span<const int64_t> strides;
  DType dtype = DType::kF32;
  ng_scalar scalar{};
  ScalarKind scalar_kind = ScalarKind::kInt;
  bool whole = false;  // the window is the whole object: it can be returned as it is
};

enum class RunStatus : uint8_t {
  kOk,
  kTaskFailed,  // RunResult::error says what; the host may hold an exception
  // In these cases nothing has run:
  kInputsOverlap,  // a written input overlaps another one in a way not seen at compile time
  // An input whose storage the graph addresses lies elsewhere in it than at compile time, or has a smaller storage.
  kInputElsewhere,
  // RunResult::error names the input: it has other sizes or strides than the graph was compiled for, or its memory ends
  // too early.
  kInputRefused,
};

struct RunResult {
  RunStatus status = RunStatus::kOk;
  std::string error;
  std::optional<int32_t> task;  // the task that failed; nullopt: none did, or the error is of none
  std::string warning;          // for the user; empty: none
};

}  // namespace npugraph::runtime
