// SPDX-License-Identifier: Apache-2.0
// Kernels of users, in C++17. A kernel is a function over tensors and numbers, registered under the schema of its
// operator. Captured Programs call it as a task, without a dispatcher and without Python, and npugraph-run calls it
// without torch.
//
//   #include <npugraph/kernel.h>
//
//   using namespace npugraph::kernel;
//
//   void scaled_add(const Context& context, Input x, Input y, double scale, Output result) {
//     const float *a = x.data<float>(), *b = y.data<float>();
//     float* to = result.data<float>();
//     context.parallel_for(result.numel(), 4096, [&](int64_t first, int64_t last) {
//       for (int64_t i = first; i < last; ++i) to[i] = a[i] + static_cast<float>(scale) * b[i];
//     });
//   }
//
//   NPUGRAPH_KERNEL("my_ops::scaled_add(Tensor x, Tensor y, float scale) -> Tensor", scaled_add)
//
// The parameters are the arguments of the schema in order, then one Output for each result that is not an argument. A
// Context may come first.
//
//   schema                  parameter
//   Tensor                  Input
//   Tensor(a!)              InOut
//   int, SymInt             int64_t
//   float, Scalar           double
//   bool                    bool
//   str                     std::string_view
//   ScalarType              ng_dtype
//   T?                      std::optional<parameter of T>
//   T[]                     List<parameter of T>, not of bool, str and ScalarType
//
// The elements of Input, InOut and Output are adjacent and in row-major order. Tensors that are not so in the Program
// are copied before the kernel, and back behind it. StridedInput, StridedInOut and StridedOutput come as they are.
// Outputs hold no values before the kernel has written them.
//
// A kernel may run in several threads at once, on other tensors. It reports an error by an exception: the call fails
// with its message, the operator's name and the user's line, and the next call works.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "library.h"

namespace npugraph::kernel {

// Elements of 16 bits, which convert from and to float.
struct BFloat16 {
  uint16_t bits = 0;

  BFloat16() = default;
  explicit BFloat16(float value) {
    uint32_t whole = 0;
    std::memcpy(&whole, &value, sizeof(whole));
    const bool is_nan = (whole & 0x7fffffffu) > 0x7f800000u;
    // Rounds to nearest, ties to even.
    bits = static_cast<uint16_t>(is_nan ? (whole >> 16) | 0x40u : (whole + 0x7fffu + (whole >> 16 & 1u)) >> 16);
  }
  operator float() const {
    const uint32_t whole = static_cast<uint32_t>(bits) << 16;
    float value = 0;
    std::memcpy(&value, &whole, sizeof(value));
    return value;
  }
};

struct Float16 {
#if defined(__aarch64__)
  using Half = __fp16;  // GCC 12 has no _Float16 there
#else
  using Half = _Float16;
#endif
  uint16_t bits = 0;

  Float16() = default;
  explicit Float16(float value) {
    const auto narrow = static_cast<Half>(value);
    std::memcpy(&bits, &narrow, sizeof(bits));
  }
  operator float() const {
    Half narrow = 0;
    std::memcpy(&narrow, &bits, sizeof(bits));
    return static_cast<float>(narrow);
  }
};

inline const char* name_of(int32_t dtype) {
  constexpr const char* kNames[] = {
      "bool",     "uint8",   "int8",          "int16",       "int32",           "int64",           "float16",
      "bfloat16", "float32", "float64",       "complex32",   "complex64",       "complex128",      "uint16",
      "uint32",   "uint64",  "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu"};
  return dtype >= 0 && dtype < static_cast<int32_t>(std::size(kNames)) ? kNames[dtype] : "an unknown type";
}

inline int64_t size_of(int32_t dtype) {
  constexpr int8_t kBytes[] = {1, 1, 1, 2, 4, 8, 2, 2, 4, 8, 4, 8, 16, 2, 4, 8, 1, 1, 1, 1, 1};
  return kBytes[dtype];
}

// The element type of a C++ type.
template <typename T>
constexpr ng_dtype dtype_of() {
  if constexpr (std::is_same_v<T, bool>)
    return NG_BOOL;
  else if constexpr (std::is_same_v<T, uint8_t>)
    return NG_U8;
  else if constexpr (std::is_same_v<T, int8_t>)
    return NG_I8;
  else if constexpr (std::is_same_v<T, int16_t>)
    return NG_I16;
  else if constexpr (std::is_same_v<T, int32_t>)
    return NG_I32;
  else if constexpr (std::is_same_v<T, int64_t>)
    return NG_I64;
  else if constexpr (std::is_same_v<T, uint16_t>)
    return NG_U16;
  else if constexpr (std::is_same_v<T, uint32_t>)
    return NG_U32;
  else if constexpr (std::is_same_v<T, uint64_t>)
    return NG_U64;
  else if constexpr (std::is_same_v<T, Float16>)
    return NG_F16;
  else if constexpr (std::is_same_v<T, BFloat16>)
    return NG_BF16;
  else if constexpr (std::is_same_v<T, float>)
    return NG_F32;
  else {
    static_assert(std::is_same_v<T, double>, "no element type of a tensor");
    return NG_F64;
  }
}

// A tensor during a run. Sizes and strides are in elements; dimensions count from the end if they are negative.
class Tensor {
 public:
  explicit Tensor(const ng_buffer* buffer) : buffer_(buffer) {}

  int64_t rank() const { return buffer_->rank; }
  int64_t size(int64_t dim) const { return buffer_->sizes[position(dim)]; }
  int64_t stride(int64_t dim) const { return buffer_->strides[position(dim)]; }
  const int64_t* sizes() const { return buffer_->sizes; }
  const int64_t* strides() const { return buffer_->strides; }
  int32_t dtype() const { return buffer_->dtype; }
  int64_t numel() const {
    int64_t count = 1;
    for (int32_t d = 0; d < buffer_->rank; ++d) count *= buffer_->sizes[d];
    return count;
  }

 protected:
  template <typename T>
  T* elements() const {
    if (buffer_->dtype != dtype_of<std::remove_const_t<T>>())
      throw std::invalid_argument(std::string("a tensor of ") + name_of(buffer_->dtype) + " is taken as one of " +
                                  name_of(dtype_of<std::remove_const_t<T>>()));
    return static_cast<T*>(buffer_->data);
  }
  void* memory() const { return buffer_->data; }

 private:
  int64_t position(int64_t dim) const {
    if (dim < -rank() || dim >= rank())
      throw std::out_of_range("dimension " + std::to_string(dim) + " of a tensor with " + std::to_string(rank()));
    return dim < 0 ? dim + rank() : dim;
  }

  const ng_buffer* buffer_;
};

// data<T>() throws if the elements have another type.
class StridedInput : public Tensor {
 public:
  using Tensor::Tensor;
  template <typename T>
  const T* data() const {
    return elements<const T>();
  }
  const void* data() const { return memory(); }
};

class StridedInOut : public Tensor {
 public:
  using Tensor::Tensor;
  template <typename T>
  T* data() const {
    return elements<T>();
  }
  void* data() const { return memory(); }
};

class StridedOutput : public StridedInOut {
 public:
  using StridedInOut::StridedInOut;
};

class Input : public StridedInput {
 public:
  using StridedInput::StridedInput;
};

class InOut : public StridedInOut {
 public:
  using StridedInOut::StridedInOut;
};

class Output : public StridedInOut {
 public:
  using StridedInOut::StridedInOut;
};

// What a kernel gets of the runtime.
class Context {
 public:
  Context(const ng_host* host, void* workspace) : host_(host), workspace_(workspace) {}

  // How many threads parallel_for may use. Results must not depend on it.
  int workers() const { return host_->workers; }

  // Calls body(first, last) for disjoint ranges of [0, count), each of at least `grain` indices but the last, in the
  // threads of the runtime. Rethrows the first exception when all are done.
  template <typename Body>
  void parallel_for(int64_t count, int64_t grain, const Body& body) const {
    struct Shared {
      const Body& body;
      std::mutex mutex;
      std::exception_ptr failed;
    } shared{body, {}, {}};
    const auto range = [](void* arg, int64_t first, int64_t last) {
      auto& of = *static_cast<Shared*>(arg);
      try {
        of.body(first, last);
      } catch (...) {
        const std::lock_guard<std::mutex> lock(of.mutex);
        if (of.failed == nullptr) of.failed = std::current_exception();
      }
    };
    host_->parallel_for(host_, 0, count, grain, range, &shared);
    if (shared.failed != nullptr) std::rethrow_exception(shared.failed);
  }

  // The bytes that the kernel's workspace function asked for, aligned to 64; null if it has none.
  void* workspace() const { return workspace_; }

 private:
  const ng_host* host_;
  void* workspace_;
};

// Tensors or numbers of an argument that is a list.
template <typename T>
class List {
 public:
  explicit List(const std::vector<T>* constant) : constant_(constant) {}
  explicit List(std::vector<T> computed) : computed_(std::move(computed)) {}

  size_t size() const { return values().size(); }
  const T& operator[](size_t i) const { return values()[i]; }
  auto begin() const { return values().begin(); }
  auto end() const { return values().end(); }

 private:
  const std::vector<T>& values() const { return constant_ != nullptr ? *constant_ : computed_; }

  const std::vector<T>* constant_ = nullptr;
  std::vector<T> computed_;
};

}  // namespace npugraph::kernel

#include "kernel_parts.h"

// Registers `function` as the kernel of the operator with this schema, at namespace scope. A function over the same
// parameters, without Context, may follow: it returns the bytes of workspace for these sizes, and must not read
// elements.
#define NPUGRAPH_KERNEL(schema, ...) NPUGRAPH_KERNEL_AT(__COUNTER__, schema, __VA_ARGS__)
#define NPUGRAPH_KERNEL_AT(number, schema, ...) NPUGRAPH_KERNEL_NAMED(number, schema, __VA_ARGS__)
#define NPUGRAPH_KERNEL_NAMED(number, schema, ...)              \
  [[maybe_unused]] static const bool npugraph_kernel_##number = \
      ::npugraph::kernel::detail::table().add<__VA_ARGS__>(schema);
