// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <string>
#include <unordered_set>
#include <vector>

#include "base/error.h"
#include "lower/nest/shape.h"
#include "target/costs.h"

namespace npugraph::lower {
namespace {

using loop::For;
using loop::Load;
using loop::Op;
using loop::Stmt;
using loop::Store;

constexpr int64_t kSmallSize = 64;
constexpr int64_t kLargeSize = 1024;
// Number of operands that share a cache.
constexpr double kSharing = 4;

// Number of vector instructions of an operation.
double instructions_of(Op op, DType dtype) {
  const bool is_float = is_floating(dtype);
  switch (op) {
    case Op::kConstant:
    case Op::kScalar: return 0;
    case Op::kSqrt:
    case Op::kRsqrt:
    case Op::kReciprocal: return 5;
    case Op::kDiv: return 5;
    case Op::kExp:
    case Op::kExp2: return 16;
    case Op::kSigmoid:
    case Op::kTanh:
    case Op::kLog:
    case Op::kLog2:
    case Op::kLog10: return 24;
    case Op::kErf:
    case Op::kExpm1:
    case Op::kLog1p:
    case Op::kErfc:
    case Op::kSin:
    case Op::kCos:
    case Op::kTan:
    case Op::kAsin:
    case Op::kAcos:
    case Op::kAtan:
    case Op::kSinh:
    case Op::kCosh: return 34;
    case Op::kPow:
    case Op::kAtan2: return 60;
    case Op::kFmod:
    case Op::kFloorMod:
    case Op::kTruncDiv:
    case Op::kFloorDiv: return is_float ? 16 : 100;
    case Op::kCast: return dtype == DType::kBF16 || dtype == DType::kF16 ? 2 : 1;
    default: return 1;
  }
}

class Estimate {
 public:
  Estimate(const loop::Kernel& kernel, const target::Target& target, int64_t symbol)
      : kernel_(kernel), target_(target), costs_(target::costs_of(target)), symbol_(symbol) {}

  double total() { return time(block(kernel_.body)); }

 private:
  // Time of instructions, and of the memory accesses that overlap with them.
  struct Cost {
    double busy = 0, waits = 0;
    Cost& operator+=(const Cost& other) {
      busy += other.busy;
      waits += other.waits;
      return *this;
    }
    friend Cost operator*(double times, const Cost& one) { return {times * one.busy, times * one.waits}; }
  };
  static double time(const Cost& cost) { return std::max(cost.busy, cost.waits); }

  // A loop around a statement.
  struct Around {
    const std::string& var;
    int64_t extent;
    For::Kind kind;
  };

  Cost block(const std::vector<Stmt>& statements) {
    Cost sum;
    for (const Stmt& stmt : statements) {
      if (const auto* loop = std::get_if<For>(&stmt.node)) sum += cost(*loop);
      if (const auto* let = std::get_if<loop::Let>(&stmt.node))
        sum.busy += instructions_of(let->op, dtype(let->id)) * costs_.instruction;
      if (const auto* load = std::get_if<Load>(&stmt.node)) sum += access(load->buffer, load->index);
      if (const auto* store = std::get_if<Store>(&stmt.node)) sum += access(store->buffer, store->index);
    }
    return sum;
  }

  Cost cost(const For& loop) {
    const int64_t extent = std::max<int64_t>(value(loop.extent, "", 0), 0);
    around_.push_back({loop.var, extent, loop.kind});
    Cost body = block(loop.body);
    around_.pop_back();
    body.busy += static_cast<double>(loop.reductions.size()) * costs_.instruction;
    if (loop.kind == For::Kind::kVector) return vector_cost(loop, extent, body);
    if (loop.kind == For::Kind::kParallel) return parallel_cost(loop, extent, body);
    // Inside a vector loop, it works on several registers at a time.
    body.busy += costs_.iteration * (in_lanes() ? 0.5 : 2);
    return static_cast<double>(extent) * body;
  }

  // Cost of a vector loop of `extent` iterations; `body` is the cost of one vector of them.
  Cost vector_cost(const For& loop, int64_t extent, Cost body) const {
    const int64_t lanes = target_.lanes(DType::kF32);
    body.busy += costs_.iteration;
    Cost all = static_cast<double>((extent + lanes - 1) / lanes) * body;
    all.busy += costs_.loop * static_cast<double>(1 + 2 * loop.reductions.size());
    return all;
  }

  Cost parallel_cost(const For& loop, int64_t extent, Cost body) const {
    const int64_t grain = std::max<int64_t>(value(loop.grain, "", 0), 1);
    body.busy += 4 * costs_.iteration;
    const auto ranges = static_cast<double>(target::ranges_of(extent, grain));
    const double region = ranges > 1 ? costs_.region + ranges * (costs_.range + handing_over() / 2) : 0;
    return {time(body) * target::share_of(extent, grain) + region, 0};
  }

  // Cost of local memory that another thread used before.
  double handing_over() const {
    int64_t bytes = 0;
    for (const loop::Buffer& buffer : kernel_.buffers) {
      if (buffer.kind == loop::Buffer::Kind::kLocal) bytes += value(buffer.elements, "", 0) * size_of(buffer.dtype);
    }
    return static_cast<double>(bytes) * costs_.handed_byte;
  }

  // Cost of an access. The first statement that uses a buffer moves it from the cache or memory that holds all of it;
  // later ones move it from the one that holds the part which an iteration of the parallel loop uses.
  Cost access(int32_t buffer, const Expr& index) {
    const bool is_first = seen_.insert(buffer).second && !is_scratch(kernel_.buffers[buffer].kind);
    const int64_t size = size_of(kernel_.buffers[buffer].dtype);
    auto all = static_cast<double>(size), part = all;
    int64_t stride = 0;
    bool jumps = false;
    for (const Around& loop : around_) {
      const int64_t step = value(index, loop.var, 1) - value(index, loop.var, 0);
      if (loop.kind == For::Kind::kVector) stride = step;
      if (loop.kind == For::Kind::kSerial)
        jumps = jumps || walked(step, loop, size) > static_cast<double>(target_.l2_bytes);
      if (step == 0 && loop.kind != For::Kind::kParallel) continue;
      const double times = std::max(static_cast<double>(loop.extent), 1.0);
      all *= times;
      if (loop.kind != For::Kind::kParallel) part *= times;
    }
    const int64_t lanes = in_lanes() ? target_.lanes(DType::kF32) : 1;
    if (stride != 0 && stride != 1) return {static_cast<double>(lanes) * costs_.element, 0};
    const auto bytes = static_cast<double>(stride == 0 ? size : lanes * size);
    const bool is_apart = jumps && in_lanes();
    return {costs_.instruction,
            bytes * target::byte_cost(target_, is_first ? all : kSharing * part) + (is_apart ? costs_.line : 0)};
  }

  // Bytes between the first and the last place that a loop accesses.
  static double walked(int64_t step, const Around& loop, int64_t size) {
    return std::abs(static_cast<double>(step)) * static_cast<double>(loop.extent) * static_cast<double>(size);
  }

  bool in_lanes() const {
    return std::any_of(around_.begin(), around_.end(), [](const Around& a) { return a.kind == For::Kind::kVector; });
  }

  // The value of an expression with this loop variable at `place`, and all others at 0.
  int64_t value(const Expr& e, const std::string& var, int64_t place) const {
    if (const auto known = e.as_int()) return *known;
    const auto lookup = [&](const std::string& name) {
      if (name == var) return Scalar::of_int(place);
      for (const loop::ScalarArg& scalar : kernel_.scalars) {
        if (scalar.name == name)
          return scalar.kind == ScalarKind::kBool ? Scalar::of_bool(true) : Scalar::of_int(symbol_);
      }
      return Scalar::of_int(0);
    };
    try {
      return evaluate(e, lookup).as_int();
    } catch (const UserError&) {
      return symbol_;  // these sizes cannot occur together
    }
  }

  DType dtype(loop::ValueId id) const { return kernel_.dtypes[static_cast<size_t>(id)]; }

  const loop::Kernel& kernel_;
  const target::Target& target_;
  const target::Costs costs_;
  const int64_t symbol_;
  std::vector<Around> around_;
  std::unordered_set<int32_t> seen_;  // buffers that earlier statements use
};

}  // namespace

double cost_of(const loop::Kernel& kernel, const target::Target& target) {
  const double large = Estimate(kernel, target, kLargeSize).total();
  return kernel.scalars.empty() ? large : large + Estimate(kernel, target, kSmallSize).total();
}

}  // namespace npugraph::lower
