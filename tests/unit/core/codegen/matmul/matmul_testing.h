// SPDX-License-Identifier: Apache-2.0
// Runs matrix products on operands that end where readable memory ends, and computes them in f64.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <initializer_list>
#include <random>
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <sys/mman.h>

#include "codegen/matmul/matmul.h"
#include "loop/builder.h"
#include "loop/evaluate.h"
#include "loop/text.h"

namespace npugraph::codegen {

using Sizes = std::vector<int64_t>;

inline double element_value(const void* at, DType dtype) {
  uint32_t bits = 0;
  std::memcpy(&bits, at, size_of(dtype));
  if (dtype == DType::kF32) return std::bit_cast<float>(bits);
  if (dtype == DType::kBF16) return std::bit_cast<float>(bits << 16);
  if (dtype == DType::kI8) return static_cast<int8_t>(bits);
  if (dtype == DType::kU8) return bits;
  if (dtype == DType::kI32) return static_cast<int32_t>(bits);
  const uint32_t fraction = bits & 0x3ff, exponent = bits >> 10 & 31;
  const double size = exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
  return bits & 0x8000 ? -size : size;
}

// Stores a number that the type holds exactly.
inline void set_element(void* at, DType dtype, float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  uint32_t kept = bits;
  if (dtype == DType::kBF16) kept = bits >> 16;
  if (dtype == DType::kI8) kept = static_cast<uint32_t>(static_cast<int32_t>(value));
  if (dtype == DType::kF16)
    kept = (bits >> 16 & 0x8000) | (value == 0 ? 0 : ((bits >> 23 & 255) - 112) << 10 | (bits >> 13 & 0x3ff));
  std::memcpy(at, &kept, size_of(dtype));
}

// A strided tensor whose last byte is followed by memory that may not be read.
class Tensor {
 public:
  Tensor(DType dtype, Sizes sizes, Sizes strides)
      : dtype_(dtype), sizes_(std::move(sizes)), strides_(std::move(strides)) {
    int64_t last = 0;
    bool empty = false;
    for (size_t d = 0; d < sizes_.size(); ++d) {
      empty |= sizes_[d] == 0;
      last += (sizes_[d] - 1) * strides_[d];
    }
    const int64_t bytes = empty ? 0 : (last + 1) * size_of(dtype);
    constexpr int64_t kPage = 4096;
    mapped_ = (bytes + kPage - 1) / kPage * kPage + kPage;
    map_ = static_cast<char*>(mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    mprotect(map_ + mapped_ - kPage, kPage, PROT_NONE);
    data_ = map_ + mapped_ - kPage - bytes;
    bytes_ = bytes;
  }
  ~Tensor() { munmap(map_, mapped_); }
  Tensor(const Tensor&) = delete;

  // Fills the tensor with random bytes.
  void fill_bytes(uint32_t seed) {
    std::minstd_rand random(seed);
    for (int64_t at = 0; at < bytes_; ++at) data_[at] = static_cast<char>(random() >> 8);
  }
  // Fills the tensor with multiples of 1/64 between -1 and 1, or with integers between -64 and 64.
  void fill(uint32_t seed) {
    std::minstd_rand random(seed);
    const int64_t size = size_of(dtype_);
    const float unit = dtype_ == DType::kI8 ? 1 : 1.0F / 64;
    for (int64_t at = 0; at < bytes_; at += size)
      set_element(data_ + at, dtype_, static_cast<float>(static_cast<int>(random() % 129) - 64) * unit);
  }
  void poison() { std::memset(data_, 0x7e, bytes_); }

  char* at(std::span<const int64_t> index) const {
    int64_t offset = 0;
    const size_t skipped = index.size() - sizes_.size();
    for (size_t d = 0; d < sizes_.size(); ++d) offset += sizes_[d] == 1 ? 0 : index[skipped + d] * strides_[d];
    return data_ + offset * size_of(dtype_);
  }
  char* at(std::initializer_list<int64_t> index) const { return at(std::span(index.begin(), index.size())); }
  double value(std::span<const int64_t> index) const { return element_value(at(index), dtype_); }
  double value(std::initializer_list<int64_t> index) const { return element_value(at(index), dtype_); }
  // The elements as numbers, in row-major order. Sums over these are fast.
  std::vector<double> numbers() const {
    std::vector<int64_t> offsets{0};
    for (size_t d = 0; d < sizes_.size(); ++d) {
      std::vector<int64_t> inner;
      for (const int64_t offset : offsets)
        for (int64_t i = 0; i < sizes_[d]; ++i) inner.push_back(offset + i * strides_[d]);
      offsets = std::move(inner);
    }
    std::vector<double> all;
    for (const int64_t offset : offsets) all.push_back(element_value(data_ + offset * size_of(dtype_), dtype_));
    return all;
  }
  ng_buffer buffer() const {
    return {data_,
            nullptr,
            sizes_.data(),
            strides_.data(),
            static_cast<int32_t>(sizes_.size()),
            static_cast<int32_t>(dtype_),
            dies_ && reinterpret_cast<uintptr_t>(data_) % 64 == 0 ? NG_BUFFER_DIES : 0,
            0};
  }
  // Tells the task that nobody reads the tensor afterwards.
  void let_die() { dies_ = true; }
  loop::HostBuffer host() const { return {data_, bytes_ / size_of(dtype_)}; }
  std::vector<char> bytes() const { return {data_, data_ + bytes_}; }
  const Sizes& sizes() const { return sizes_; }
  DType dtype() const { return dtype_; }

 private:
  DType dtype_;
  Sizes sizes_, strides_;
  char* map_;
  int64_t mapped_;
  char* data_;
  int64_t bytes_;
  bool dies_ = false;
};

// The text of an epilogue that stores the sums as `dtype`. Its scalars are the rows and the columns.
inline std::string store_text(DType dtype, DType sums_type = DType::kF32) {
  loop::Builder b("end");
  const Expr rows = b.scalar("rows"), n = b.scalar("n");
  const auto sums = b.in("sums", sums_type);
  const auto y = b.out("y", dtype);
  b.serial_for(rows, [&](const Expr& r) {
    b.vector_for(n, [&](const Expr& c) { b.store(y, r * n + c, b.cast_to(b.load(sums, r * n + c), dtype)); });
  });
  return loop::print(b.finish());
}

// Runs the ranges that `workers` threads would take, the last one first.
inline void cut_backwards(const ng_host* host, int64_t begin, int64_t end, int64_t grain,
                          void (*body)(void*, int64_t, int64_t), void* arg) {
  const int64_t length = std::max(grain, (end - begin + host->workers - 1) / host->workers);
  for (int64_t at = begin + (end - begin - 1) / length * length; at >= begin; at -= length)
    body(arg, at, std::min(at + length, end));
}

// Runs the task on the tensors, destroys it, and returns its status.
inline ng_status try_task(const ng_task& task, const std::vector<const Tensor*>& tensors, int32_t workers,
                          const std::vector<ng_scalar>& scalars = {}) {
  std::vector<ng_buffer> buffers;
  for (const Tensor* tensor : tensors) buffers.push_back(tensor->buffer());
  ng_call call{.buffers = buffers.data(),
               .scalars = scalars.data(),
               .num_buffers = static_cast<uint32_t>(buffers.size()),
               .num_scalars = static_cast<uint32_t>(scalars.size()),
               .abi_version = NG_TASK_ABI_VERSION};
  void* state = nullptr;
  ng_status status = task.bind(task.context, &call, &state);
  if (status == NG_OK) {
    const int64_t bytes = task.workspace == nullptr ? 0 : task.workspace(task.context, &call);
    std::vector<char> workspace(static_cast<size_t>(bytes) + 64);
    void* aligned = workspace.data();
    size_t space = workspace.size();
    call.workspace = std::align(64, 1, aligned, space);
    const ng_host host{.self = nullptr,
                       .workers = workers,
                       .parallel_for = cut_backwards,
                       .set_error = [](const ng_host*, const char*) {}};
    call.host = &host;
    status = task.run(task.context, state, &call);
  }
  task.unbind(task.context, state);
  task.destroy(task.context);
  return status;
}

inline void run_task(const ng_task& task, const std::vector<const Tensor*>& tensors, int32_t workers,
                     const std::vector<ng_scalar>& scalars = {}) {
  EXPECT_EQ(try_task(task, tensors, workers, scalars), NG_OK);
}

inline void run_matmul_task(const MatmulSpec& spec, const target::Target& target,
                            const std::vector<const Tensor*>& tensors, int32_t workers,
                            const std::vector<ng_scalar>& scalars = {}) {
  run_task(make_matmul(spec, target), tensors, workers, scalars);
}

}  // namespace npugraph::codegen
