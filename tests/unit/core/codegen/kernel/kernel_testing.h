// SPDX-License-Identifier: Apache-2.0
// Runs kernels as generated code and in the interpreter, and compares the contents of their buffers.
#pragma once

#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "base/error.h"
#include "codegen/kernel/kernel.h"
#include "loop/evaluate.h"
#include "loop/text.h"
#include "tensor/convert.h"

namespace npugraph::codegen {

// Elements of one type.
struct Array {
  DType dtype = DType::kF32;
  std::vector<char> bytes;
  int64_t elements() const { return static_cast<int64_t>(bytes.size()) / size_of(dtype); }
  template <typename T>
  T* data() {
    return reinterpret_cast<T*>(bytes.data());
  }
  template <typename T>
  T at(int64_t i) const {
    T out;
    std::memcpy(&out, bytes.data() + i * static_cast<int64_t>(sizeof(T)), sizeof(T));
    return out;
  }
};

template <typename T>
Array array_of(DType dtype, const std::vector<T>& values) {
  Array out = {dtype, std::vector<char>(values.size() * sizeof(T))};
  if (!values.empty()) std::memcpy(out.bytes.data(), values.data(), out.bytes.size());
  return out;
}

inline Array zeros(DType dtype, int64_t elements) {
  return {dtype, std::vector<char>(static_cast<size_t>(elements * size_of(dtype)))};
}

// Random elements: any bits for integers and small floats, moderate numbers for f32 and f64, 0 or 1 for kBool.
inline Array random_array(DType dtype, int64_t elements, uint64_t seed) {
  std::mt19937_64 random(seed);
  Array out = zeros(dtype, elements);
  for (char& byte : out.bytes) byte = static_cast<char>(random());
  std::normal_distribution<double> normal(0, 3);
  for (int64_t i = 0; i < elements; ++i) {
    if (dtype == DType::kF32) out.data<float>()[i] = static_cast<float>(normal(random));
    if (dtype == DType::kF64) out.data<double>()[i] = normal(random);
    if (dtype == DType::kBool) out.bytes[static_cast<size_t>(i)] &= 1;
  }
  return out;
}

inline double number_at(const Array& array, int64_t i) {
  switch (array.dtype) {
    case DType::kF32: return array.at<float>(i);
    case DType::kF64: return array.at<double>(i);
    case DType::kF16: return convert<float>(array.at<Half>(i));
    case DType::kBF16: return convert<float>(array.at<BFloat16>(i));
    default: return float8_to_float(array.dtype, array.at<uint8_t>(i));
  }
}

// The allowed difference of floats, relative to the larger of 1 and the expected value.
struct Tolerance {
  double f32 = 2e-6;
  double f64 = 2e-14;
  bool small_floats_exact = true;
};

inline void expect_equal(const Array& got, const Array& wanted, const Tolerance& tolerance, const std::string& what) {
  if (got.bytes == wanted.bytes) return;
  for (int64_t i = 0; i < wanted.elements(); ++i) {
    const auto size = static_cast<size_t>(size_of(wanted.dtype));
    const auto at = static_cast<size_t>(i) * size;
    if (std::memcmp(&got.bytes[at], &wanted.bytes[at], size) == 0) continue;
    ASSERT_TRUE(is_floating(wanted.dtype))
        << what << ": element " << i << " differs: " << static_cast<int>(got.bytes[at]) << " for "
        << static_cast<int>(wanted.bytes[at]);
    const double x = number_at(got, i);
    const double y = number_at(wanted, i);
    if (std::isnan(x) && std::isnan(y)) continue;
    const bool small = size < 4;
    const double allowed = small ? (tolerance.small_floats_exact ? 0 : 0.02)
                                 : (wanted.dtype == DType::kF32 ? tolerance.f32 : tolerance.f64);
    ASSERT_LE(std::abs(x - y), allowed * std::max(1.0, std::abs(y)))
        << what << ": element " << i << " is " << x << ", wanted " << y;
  }
}

class TestHost {
 public:
  explicit TestHost(int workers) { host_ = {this, workers, parallel_for, set_error}; }
  const ng_host* host() const { return &host_; }
  std::string error;

 private:
  static void parallel_for(const ng_host* host, int64_t begin, int64_t end, int64_t grain,
                           void (*body)(void*, int64_t, int64_t), void* arg) {
    std::vector<std::thread> threads;
    const int64_t step = std::max(grain, (end - begin + host->workers - 1) / host->workers);
    for (int64_t i = begin; i < end; i += step) threads.emplace_back([=] { body(arg, i, std::min(i + step, end)); });
    for (std::thread& thread : threads) thread.join();
  }
  static void set_error(const ng_host* host, const char* message) {
    static_cast<TestHost*>(host->self)->error = message;
  }
  ng_host host_;
};

// Runs the task of a kernel once and returns its error message, empty if it succeeds.
inline std::string run_generated(const loop::Kernel& kernel, const target::Target& target, std::vector<Array>& arrays,
                                 const std::vector<Scalar>& scalars, int workers = 1) {
  const ng_task task = make_kernel_task(kernel, target);
  TestHost host(workers);
  std::vector<ng_buffer> buffers;
  for (Array& array : arrays) buffers.push_back({.data = array.bytes.data(), .dtype = static_cast<int>(array.dtype)});
  std::vector<ng_scalar> values;
  for (const Scalar& scalar : scalars) {
    ng_scalar value;
    if (scalar.kind == ScalarKind::kFloat)
      value.f = scalar.f;
    else
      value.i = scalar.i;
    values.push_back(value);
  }
  ng_call call = {};
  call.buffers = buffers.data();
  call.scalars = values.data();
  call.num_buffers = static_cast<uint32_t>(buffers.size());
  call.num_scalars = static_cast<uint32_t>(values.size());
  call.abi_version = NG_TASK_ABI_VERSION;
  void* state = nullptr;
  if (task.bind) {
    EXPECT_EQ(task.bind(task.context, &call, &state), NG_OK);
  }
  std::vector<char> workspace(task.workspace ? static_cast<size_t>(task.workspace(task.context, &call)) + 64 : 0);
  if (!workspace.empty())
    call.workspace = reinterpret_cast<void*>((reinterpret_cast<uintptr_t>(workspace.data()) + 63) / 64 * 64);
  call.host = host.host();
  const ng_status status = task.run(task.context, state, &call);
  EXPECT_EQ(status == NG_ERROR, !host.error.empty());
  if (task.unbind) task.unbind(task.context, state);
  task.destroy(task.context);
  return host.error;
}

// Checks that generated code for every target of the host, on one thread and on three, gives the results of the
// interpreter.
inline void expect_as_interpreted(const loop::Kernel& kernel, const std::vector<Array>& arrays,
                                  const std::vector<Scalar>& scalars, const Tolerance& tolerance = {}) {
  std::vector<Array> wanted = arrays;
  std::vector<loop::HostBuffer> host;
  for (Array& array : wanted) host.push_back({array.bytes.data(), array.elements()});
  const std::string wanted_error = loop::interpret(kernel, host, scalars);
  for (const target::Target& target : target::host_targets()) {
    for (const int workers : {1, 3}) {
      const std::string what = cat(target.level, ", ", workers, " workers, ", loop::print(kernel));
      std::vector<Array> got = arrays;
      ASSERT_EQ(run_generated(kernel, target, got, scalars, workers), wanted_error) << what;
      if (!wanted_error.empty()) continue;
      for (size_t i = 0; i < got.size(); ++i) {
        expect_equal(got[i], wanted[i], tolerance, cat("buffer ", i, ", ", what));
        if (testing::Test::HasFatalFailure()) return;
      }
    }
  }
}

}  // namespace npugraph::codegen
