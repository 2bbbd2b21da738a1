// SPDX-License-Identifier: Apache-2.0
// Kernels that move, convert or make elements: copy, cast, fill, arange.
#include <cstring>
#include <memory>
#include <vector>

#include "base/error.h"
#include "kernels/elements.h"
#include "kernels/kernel_table.h"
#include "kernels/kernel_task.h"
#include "kernels/strided_loop.h"

namespace npugraph::kernels {
namespace {

constexpr int64_t kMoveGrainBytes = 256 << 10;  // of results, per thread

// Reads x (operand 0), writes y (operand 1); x broadcasts to y.
class Move {
 public:
  using RowFunction = void (*)(const Row& row);
  struct State {
    StridedLoop loop;
  };

  Move(const ng_definition& task, RowFunction row)
      : row_(row), from_bytes_(size_of(dtype_of(task.operands[0]))), to_bytes_(size_of(dtype_of(task.operands[1]))) {}

  bool bind(const ng_call& call, State& state) const {
    if (!state.loop.reset(call.buffers[1]) || !state.loop.add(call.buffers[0], from_bytes_)) return false;
    if (!state.loop.add(call.buffers[1], to_bytes_)) return false;
    state.loop.collapse(1);
    return true;
  }

  ng_status run(const State& state, ng_call& call) const {
    const std::array<char*, kMaxWindows> data = {static_cast<char*>(call.buffers[0].data),
                                                 static_cast<char*>(call.buffers[1].data)};
    for_ranges(call, state.loop.count(), kMoveGrainBytes / to_bytes_,
               [&](int64_t first, int64_t last) { state.loop.run(data, first, last, row_); });
    return NG_OK;
  }

 private:
  const RowFunction row_;
  const int64_t from_bytes_;
  const int64_t to_bytes_;
};

template <typename T>
void copy_row(const Row& row) {
  const char* from = row.data[0];
  char* to = row.data[1];
  const auto bytes = static_cast<int64_t>(sizeof(T));
  if (row.strides[0] == bytes && row.strides[1] == bytes) {
    std::memmove(to, from, row.count * bytes);  // x and y may be the same memory
    return;
  }
  for (int64_t i = 0; i < row.count; ++i, from += row.strides[0], to += row.strides[1])
    std::memcpy(to, from, sizeof(T));
}

struct Bytes16 {
  uint64_t halves[2];
};

ng_task make_copy(const ng_definition& task) {
  check_operands(task, 1);
  const int64_t bytes = size_of(dtype_of(task.operands[1]));
  if (size_of(dtype_of(task.operands[0])) != bytes) refuse(task, "x and y have elements of different size");
  const Move::RowFunction row = bytes == 1   ? copy_row<uint8_t>
                                : bytes == 2 ? copy_row<uint16_t>
                                : bytes == 4 ? copy_row<uint32_t>
                                : bytes == 8 ? copy_row<uint64_t>
                                             : copy_row<Bytes16>;
  return make_task(std::make_unique<Move>(task, row));
}

// The element of x for element `index` of y, to which x broadcasts.
const char* broadcast_at(const ng_buffer& x, const ng_buffer& y, int64_t index, int64_t element_bytes) {
  const char* at = static_cast<const char*>(x.data);
  for (int d = y.rank - 1; d >= 0; --d) {
    const int dx = d - (y.rank - x.rank);
    if (dx >= 0 && x.sizes[dx] != 1) at += index % y.sizes[d] * x.strides[dx] * element_bytes;
    index /= y.sizes[d];
  }
  return at;
}

ng_status reference_copy(const ng_definition& task, ng_call* call) {
  const int64_t bytes = size_of(dtype_of(task.operands[1]));
  const ng_buffer& y = call->buffers[1];
  for (int64_t i = 0; i < elements(y); ++i) {
    std::memcpy(element_at(y, i, bytes), broadcast_at(call->buffers[0], y, i, bytes), bytes);
  }
  return NG_OK;
}

template <typename To, typename From>
void cast_row(const Row& row) {
  if (row.strides[0] == sizeof(From) && row.strides[1] == sizeof(To)) {
    const From* from = reinterpret_cast<const From*>(row.data[0]);
    To* to = reinterpret_cast<To*>(row.data[1]);
#pragma GCC ivdep
    for (int64_t i = 0; i < row.count; ++i) to[i] = convert<To>(from[i]);
    return;
  }
  const char* from = row.data[0];
  char* to = row.data[1];
  for (int64_t i = 0; i < row.count; ++i, from += row.strides[0], to += row.strides[1]) {
    *reinterpret_cast<To*>(to) = convert<To>(*reinterpret_cast<const From*>(from));
  }
}

Move::RowFunction find_cast(const ng_definition& task) {
  Move::RowFunction row = nullptr;
  with_type(dtype_of(task.operands[0]), [&](auto from) {
    with_type(dtype_of(task.operands[1]),
              [&](auto to) { row = cast_row<typename decltype(to)::type, typename decltype(from)::type>; });
  });
  if (row == nullptr) {
    refuse(task,
           cat("does not convert ", name_of(dtype_of(task.operands[0])), " to ", name_of(dtype_of(task.operands[1]))));
  }
  return row;
}

ng_task make_cast(const ng_definition& task) {
  check_operands(task, 1);
  return make_task(std::make_unique<Move>(task, find_cast(task)));
}

ng_status reference_cast(const ng_definition& task, ng_call* call) {
  const ng_buffer& y = call->buffers[1];
  for (int64_t i = 0; i < elements(y); ++i) {
    Row one{{const_cast<char*>(broadcast_at(call->buffers[0], y, i, size_of(dtype_of(task.operands[0])))),
             element_at(y, i, size_of(dtype_of(task.operands[1])))},
            {},
            1};
    find_cast(task)(one);
  }
  return NG_OK;
}

// With a step of 0 returns `start` itself, so that -0.0 keeps its sign.
template <typename Number>
Number ramp_at(Number start, Number step, int64_t i) {
  return step == Number{0} ? start : start + static_cast<Number>(i) * step;
}

// Writes y[i] = start + i * step in row-major order of y's elements.
class Ramp {
 public:
  struct State {
    Scalar start;
    Scalar step;
  };

  Ramp(const ng_definition& task, Argument start, Argument step)
      : start_(start), step_(step), dtype_(dtype_of(task.operands[0])) {
    if (!with_type(dtype_, [](auto) {})) refuse(task, cat("does not write ", name_of(dtype_)));
  }

  bool bind(const ng_call& call, State& state) const {
    state = {start_.value(call), step_.value(call)};
    return true;
  }

  ng_status run(const State& state, ng_call& call) const {
    const bool real = state.start.kind == ScalarKind::kFloat || state.step.kind == ScalarKind::kFloat;
    with_type(dtype_, [&](auto tag) {
      using T = typename decltype(tag)::type;
      if (real) {
        write<T>(call.buffers[0], state.start.as_float(), state.step.as_float());
      } else {
        write<T>(call.buffers[0], state.start.i, state.step.i);
      }
    });
    return NG_OK;
  }

 private:
  template <typename T, typename Number>
  static void write(const ng_buffer& y, Number start, Number step) {
    const int64_t count = elements(y);
    if (step == Number{0} && is_dense(y)) {
      std::fill_n(static_cast<T*>(y.data), count, convert<T>(start));
      return;
    }
    for (int64_t i = 0; i < count; ++i) {
      *reinterpret_cast<T*>(element_at(y, i, sizeof(T))) = convert<T>(ramp_at(start, step, i));
    }
  }

  static bool is_dense(const ng_buffer& y) {
    int64_t stride = 1;
    for (int d = y.rank - 1; d >= 0; --d) {
      if (y.sizes[d] != 1 && y.strides[d] != stride) return false;
      stride *= y.sizes[d];
    }
    return true;
  }

  const Argument start_;
  const Argument step_;
  const DType dtype_;
};

std::unique_ptr<Ramp> make_fill(const ng_definition& task) {
  check_operands(task, 0);
  const Argument zero = Arguments(task).scalar_or(1, Scalar::of_int(0));
  return std::make_unique<Ramp>(task, Arguments(task).scalar(0), zero);
}

std::unique_ptr<Ramp> make_arange(const ng_definition& task) {
  check_operands(task, 0);
  if (task.operands[0].rank != 1) refuse(task, "y has one dimension");
  const Arguments arguments(task);
  return std::make_unique<Ramp>(task, arguments.scalar(0), arguments.scalar_or(1, Scalar::of_int(1)));
}

template <std::unique_ptr<Ramp> (*make)(const ng_definition&)>
ng_task build_ramp(const ng_definition& task) {
  return make_task(make(task));
}

// One element at a time, each as a Ramp of its own.
template <std::unique_ptr<Ramp> (*make)(const ng_definition&)>
ng_status reference_ramp(const ng_definition& task, ng_call* call) {
  const auto ramp = make(task);
  Ramp::State state;
  ramp->bind(*call, state);
  const bool real = state.start.kind == ScalarKind::kFloat || state.step.kind == ScalarKind::kFloat;
  const int64_t bytes = size_of(dtype_of(task.operands[0]));
  for (int64_t i = 0; i < elements(call->buffers[0]); ++i) {
    ng_buffer element{element_at(call->buffers[0], i, bytes), nullptr, nullptr, nullptr, 0, call->buffers[0].dtype};
    ng_call one = *call;
    one.buffers = &element;
    const Scalar value = real ? Scalar::of_float(ramp_at(state.start.as_float(), state.step.as_float(), i))
                              : Scalar::of_int(ramp_at(state.start.i, state.step.i, i));
    ramp->run({value, Scalar::of_int(0)}, one);
  }
  return NG_OK;
}

constexpr Kernel kMemoryRows[] = {
    {"kernel.copy", "(x) -> y = x, any strides, elements of one size", made_by<make_copy>, reference_copy},
    {"kernel.cast", "(x) -> y = x in the type of y: bool, integers, f16, bf16, f32, f64", made_by<make_cast>,
     reference_cast},
    {"kernel.fill", "(value: scalar) -> y = value", made_by<build_ramp<make_fill>>, reference_ramp<make_fill>},
    {"kernel.arange", "(start, step: scalar) -> y[i] = start + i * step", made_by<build_ramp<make_arange>>,
     reference_ramp<make_arange>},
};

}  // namespace

std::span<const Kernel> memory_kernels() { return kMemoryRows; }

}  // namespace npugraph::kernels
