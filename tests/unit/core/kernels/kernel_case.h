// SPDX-License-Identifier: Apache-2.0
// Random calls of kernels: a task over windows of any strides, the memory behind them, and the ng_call.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.h"
#include "kernels/elements.h"
#include "kernels/kernel_table.h"
#include "tensor/expr.h"

namespace npugraph::kernels {

using Sizes = std::vector<int64_t>;

class Random {
 public:
  explicit Random(uint32_t seed) : engine_(seed) {}
  int64_t below(int64_t n) { return static_cast<int64_t>(engine_() % static_cast<uint64_t>(n)); }
  bool one_in(int64_t n) { return below(n) == 0; }

 private:
  std::mt19937_64 engine_;
};

// Zeros of both signs, infinities, NaN, large numbers, and small numbers of which many are equal.
inline double interesting_number(Random& random) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  constexpr double kSpecial[] = {0.0,  -0.0, kInf,    -kInf, std::numeric_limits<double>::quiet_NaN(),
                                 1e30, -3e9, 65519.9, 1e-7};
  if (random.one_in(8)) return kSpecial[random.below(9)];
  return static_cast<double>(random.below(41) - 20) / (random.one_in(2) ? 1.0 : 7.0);
}

inline void fill_random(Random& random, DType dtype, bool moderate, std::vector<char>& memory) {
  with_type(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for (size_t i = 0; i + sizeof(T) <= memory.size(); i += sizeof(T)) {
      const double number =
          moderate ? static_cast<double>(random.below(2001) - 1000) / 1000 : interesting_number(random);
      const T value = std::is_same_v<T, int64_t> && random.one_in(9) ? convert<T>(std::numeric_limits<int64_t>::min())
                                                                     : convert<T>(number);
      std::memcpy(&memory[i], &value, sizeof(T));
    }
  });
}

// Random strides: dense, permuted, padded or, for operands that are only read, 0.
inline Sizes random_strides(Random& random, const Sizes& sizes, bool input) {
  Sizes order(sizes.size());
  std::iota(order.begin(), order.end(), 0);
  if (random.one_in(3)) {
    for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random.below(static_cast<int64_t>(i))]);
  }
  Sizes strides(sizes.size());
  int64_t next = random.one_in(4) ? 2 : 1;
  for (size_t i = order.size(); i-- > 0;) {
    const auto d = static_cast<size_t>(order[i]);
    strides[d] = next;
    if (input && random.one_in(8)) {
      strides[d] = 0;
      continue;
    }
    next *= std::max<int64_t>(sizes[d], 1);
    if (random.one_in(6)) next += 3;
  }
  return strides;
}

// Runs ranges on threads, cut as runtime::WorkerPool cuts them. Each thread gets its share, however fast the others
// are.
class ThreadHost {
 public:
  explicit ThreadHost(int32_t threads)
      : host_{.self = this, .workers = threads, .parallel_for = parallel_for, .set_error = nullptr} {}

  const ng_host* host() const { return &host_; }
  int32_t busy_threads() const { return busy_threads_; }

 private:
  static void parallel_for(const ng_host* host, int64_t begin, int64_t end, int64_t grain,
                           void (*body)(void*, int64_t, int64_t), void* arg) {
    const int64_t threads = host->workers;
    const int64_t most = threads == 1 ? 1 : std::min(4 * threads, (end - begin) / grain);
    const int64_t length = (end - begin + most - 1) / most;
    const auto share = [=](int64_t thread) {
      for (int64_t at = begin + thread * length; at < end; at += threads * length)
        body(arg, at, std::min(at + length, end));
    };
    std::vector<std::thread> others;
    for (int64_t t = 1; t < threads && begin + t * length < end; ++t) others.emplace_back(share, t);
    share(0);
    for (std::thread& other : others) other.join();
    static_cast<ThreadHost*>(host->self)->busy_threads_ = static_cast<int32_t>(others.size()) + 1;
  }

  const ng_host host_;
  int32_t busy_threads_ = 1;
};

class KernelCase {
 public:
  explicit KernelCase(std::string name) : name_(std::move(name)) {}

  bool moderate = false;  // values between -1 and 1

  void add_input(Random& random, DType dtype, const Sizes& sizes) {
    add_value({.kind = NG_VALUE_OPERAND, .scalar = -1, .number = {.i = static_cast<int64_t>(memory_.size())}});
    add_operand(random, dtype, sizes, NG_READ);
  }
  void add_result(Random& random, DType dtype, const Sizes& sizes) { add_operand(random, dtype, sizes, NG_WRITE); }
  // Adds a scalar that is a constant, or whose value comes with the call.
  void add_scalar(Random& random, Scalar value) {
    const ng_scalar number = value.kind == ScalarKind::kFloat ? ng_scalar{.f = value.f} : ng_scalar{.i = value.i};
    const ng_value_kind kind = value.kind == ScalarKind::kFloat  ? NG_VALUE_FLOAT
                               : value.kind == ScalarKind::kBool ? NG_VALUE_BOOL
                                                                 : NG_VALUE_INT;
    if (random.one_in(2)) return add_value({.kind = kind, .scalar = -1, .number = number});
    add_value({.kind = kind, .scalar = static_cast<int32_t>(scalars_.size())});
    scalars_.push_back(number);
  }
  void add_nothing() { add_value({.kind = NG_VALUE_NONE, .scalar = -1}); }
  void add_flag(bool value) { add_value({.kind = NG_VALUE_BOOL, .scalar = -1, .number = {.i = value ? 1 : 0}}); }

  const std::string& name() const { return name_; }
  DType result_type() const { return static_cast<DType>(operands_.back().dtype); }

  // Throws a UserError with the kernel's message if the kernel refuses.
  ng_task make(const Kernel& kernel) const {
    std::string reason;
    ng_task made{};
    const Definition definition(*this);
    const auto refuse = [](void* to, const char* message) { *static_cast<std::string*>(to) = message; };
    if (kernel.make(&definition.all, &made, refuse, &reason) != NG_OK) throw UserError(reason);
    return made;
  }

  // The bytes of the results' memory after the kernel has run on `workers` threads.
  std::vector<char> run(const Kernel& kernel, int32_t workers) {
    Call call(*this);
    const ng_task made = make(kernel);
    void* state = nullptr;
    call.call.host = nullptr;
    EXPECT_EQ(made.bind(made.context, &call.call, &state), NG_OK) << name_;
    std::vector<char> workspace(made.workspace ? made.workspace(made.context, &call.call) : 0);
    ThreadHost host(workers);
    call.call.host = host.host();
    call.call.workspace = workspace.data();
    EXPECT_EQ(made.run(made.context, state, &call.call), NG_OK) << name_;
    busy_threads_ = host.busy_threads();
    made.unbind(made.context, state);
    made.destroy(made.context);
    return call.results();
  }

  // How many threads worked in the last run.
  int32_t busy_threads() const { return busy_threads_; }

  std::vector<char> run_reference(const Kernel& kernel) {
    Call call(*this);
    EXPECT_EQ(kernel.reference(Definition(*this).all, &call.call), NG_OK) << name_;
    return call.results();
  }

 private:
  struct Memory {
    std::vector<char> bytes;
    Sizes sizes;
    Sizes strides;
  };

  struct Definition {
    explicit Definition(const KernelCase& source) {
      for (const ng_value& value : source.values_) attributes.push_back({.values = &value, .count = 1, .is_list = 0});
      all = {.name = source.name_.c_str(),
             .operands = source.operands_.data(),
             .attributes = attributes.data(),
             .num_operands = static_cast<uint32_t>(source.operands_.size()),
             .num_attributes = static_cast<uint32_t>(attributes.size()),
             .abi_version = NG_TASK_ABI_VERSION};
    }
    std::vector<ng_attribute> attributes;
    ng_definition all{};
  };

  // One call on copies of the memory.
  struct Call {
    explicit Call(const KernelCase& source) {
      for (const Memory& operand : source.memory_) memory.push_back(operand.bytes);
      for (size_t i = 0; i < memory.size(); ++i) {
        const Memory& operand = source.memory_[i];
        buffers.push_back({memory[i].data(), nullptr, operand.sizes.data(), operand.strides.data(),
                           static_cast<int32_t>(operand.sizes.size()), source.operands_[i].dtype});
      }
      call.buffers = buffers.data();
      call.num_buffers = static_cast<uint32_t>(buffers.size());
      call.scalars = source.scalars_.data();
      call.num_scalars = static_cast<uint32_t>(source.scalars_.size());
      call.abi_version = NG_TASK_ABI_VERSION;
      for (const ng_operand& operand : source.operands_) num_read += operand.access == NG_READ;
    }
    std::vector<char> results() const {
      std::vector<char> bytes;
      for (size_t i = num_read; i < memory.size(); ++i) bytes.insert(bytes.end(), memory[i].begin(), memory[i].end());
      return bytes;
    }
    size_t num_read = 0;
    std::vector<std::vector<char>> memory;
    std::vector<ng_buffer> buffers;
    ng_call call{};
  };

  void add_value(ng_value value) { values_.push_back(value); }

  void add_operand(Random& random, DType dtype, const Sizes& sizes, ng_access access) {
    const Sizes strides = random_strides(random, sizes, access == NG_READ);
    int64_t elements = 1;
    for (size_t d = 0; d < sizes.size(); ++d) elements += std::max<int64_t>(sizes[d] - 1, 0) * strides[d];
    Memory memory{std::vector<char>(elements * size_of(dtype)), sizes, strides};
    fill_random(random, dtype, moderate, memory.bytes);
    operands_.push_back(
        {.dtype = static_cast<int32_t>(dtype), .access = access, .rank = static_cast<int32_t>(sizes.size())});
    memory_.push_back(std::move(memory));
  }

  const std::string name_;
  std::vector<ng_operand> operands_;
  std::vector<ng_value> values_;
  std::vector<Memory> memory_;  // of each operand
  std::vector<ng_scalar> scalars_;
  int32_t busy_threads_ = 0;
};

}  // namespace npugraph::kernels
