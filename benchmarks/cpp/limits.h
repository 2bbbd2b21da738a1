// SPDX-License-Identifier: Apache-2.0
// What this machine can do on all threads of the worker pool, which must be in a replay.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <cstring>

#include "target/target.h"

namespace npugraph {

struct Bytes {
  explicit Bytes(size_t size) : size(size), data(static_cast<char*>(std::aligned_alloc(64, (size + 63) / 64 * 64))) {
    std::memset(data, 0, size);
  }
  ~Bytes() { std::free(data); }
  Bytes(const Bytes&) = delete;
  size_t size;
  char* data;
};

// A second; 0 where this machine lacks it or nobody wrote it down.
struct Limits {
  double f32 = 0, bf16 = 0;             // operations of multiply-adds on registers alone
  double read = 0;                      // bytes of 512 MB
  double copy = 0, copy_streaming = 0;  // bytes read and written of 256 MB each, by plain and by non-temporal stores
};

Limits measure_limits(const target::Target& target);

}  // namespace npugraph
