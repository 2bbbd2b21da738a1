// SPDX-License-Identifier: Apache-2.0
#include "air_run.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>
#include <utility>

#include <sys/mman.h>
#include <unistd.h>

#include "base/error.h"
#include "compiler/task_makers.h"
#include "kernels/elements.h"
#include "runtime/malloc_host.h"
#include "tensor/shape.h"

namespace npugraph::fuzz {

using program::kNone;

// Models that compute more are compiled and not run.
constexpr int64_t kMostElements = 1 << 16;
constexpr int64_t kUnknownSize = 3;

class GuardedMemory {
 public:
  explicit GuardedMemory(int64_t bytes) {
    const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    whole_ = (static_cast<size_t>(bytes) + 2 * page - 1) / page * page;
    memory_ = static_cast<char*>(mmap(nullptr, whole_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    NG_CHECK(memory_ != MAP_FAILED, "no memory");
    mprotect(memory_ + whole_ - page, page, PROT_NONE);
    const size_t aligned = (static_cast<size_t>(bytes) + 63) / 64 * 64;  // kernels get aligned inputs
    data_ = memory_ + whole_ - page - aligned;
  }
  ~GuardedMemory() { munmap(memory_, whole_); }
  GuardedMemory(const GuardedMemory&) = delete;
  GuardedMemory& operator=(const GuardedMemory&) = delete;

  char* data() const { return data_; }

 private:
  size_t whole_ = 0;
  char* memory_ = nullptr;
  char* data_ = nullptr;
};

namespace {

// Small indices, and floating-point numbers of both signs.
void fill(char* data, int64_t bytes, DType dtype, double scale) {
  const bool has_type = kernels::with_type(dtype, [&]<typename T>(std::type_identity<T>) {
    for (int64_t i = 0; i < bytes / size_of(dtype); ++i) {
      const T element = convert<T>(is_floating(dtype) ? std::sin(static_cast<double>(i)) * scale : i % 2);
      std::memcpy(data + i * size_of(dtype), &element, sizeof element);
    }
  });
  if (!has_type) std::memset(data, 0, static_cast<size_t>(bytes));
}

// The elements of a tensor; none for types that are no real numbers.
Numbers numbers_of(const void* data, DType dtype, std::span<const int64_t> sizes, std::span<const int64_t> strides) {
  Numbers numbers{.dtype = dtype, .sizes = {sizes.begin(), sizes.end()}, .elements = {}};
  if (std::ranges::find(sizes, 0) != sizes.end()) return numbers;
  kernels::with_type(dtype, [&]<typename T>(std::type_identity<T>) {
    std::vector<int64_t> place(sizes.size());
    while (true) {
      int64_t offset = 0;
      for (size_t d = 0; d < place.size(); ++d) offset += place[d] * strides[d];
      T element;
      std::memcpy(&element, static_cast<const char*>(data) + offset * size_of(dtype), sizeof element);
      numbers.elements.push_back(convert<double>(element));
      size_t d = place.size();
      while (d > 0 && ++place[d - 1] == sizes[d - 1]) place[--d] = 0;
      if (d == 0) return;
    }
  });
  return numbers;
}

}  // namespace

Run::Run(std::shared_ptr<const program::Program> program) : program_(std::move(program)) {
  for (const program::Symbol& symbol : program_->symbols) values_.emplace(symbol.name, Scalar::of_int(kUnknownSize));
}

Run::~Run() = default;

bool Run::is_small(const ir::Graph& graph) const {
  for (ir::ValueId id = 0; id < graph.num_values(); ++id) {
    int64_t count = 1;
    for (const Expr& size : graph.value(id).tensor().sizes) {
      if (__builtin_mul_overflow(count, value(size), &count) || count > kMostElements) return false;
    }
  }
  return true;
}

std::vector<Numbers> Run::run(double scale) {
  bind(scale);
  runtime::MallocHost host;
  runtime::Executable executable(program_, host, compiler::make_task, {}, "fuzz");
  std::vector<runtime::BoundOutput> outputs(program_->outputs.size());
  std::vector<int64_t> dims;
  const runtime::RunResult result = executable.run({.all = bound_}, outputs, dims);
  NG_CHECK(result.status != runtime::RunStatus::kTaskFailed || !result.error.empty(), "an error without a name");
  std::vector<Numbers> results;
  if (result.status == runtime::RunStatus::kOk) {
    for (const runtime::BoundOutput& output : outputs) {
      if (output.kind == program::Output::Kind::kTensor)
        results.push_back(numbers_of(output.data, output.dtype, output.sizes, output.strides));
    }
    for (size_t i = 0; i < bound_.size(); ++i) {
      const program::Input& input = program_->inputs[i];
      if (input.buffer != kNone)
        results.push_back(numbers_of(bound_[i].data, input.dtype, values(input.sizes), values(input.strides)));
    }
  }
  for (const runtime::BoundOutput& output : outputs) {
    if (output.object != nullptr) host.release(output.object);
  }
  return results;
}

int64_t Run::value(const Expr& expr) const {
  const auto lookup = [&](const std::string& symbol) {
    const auto known = values_.find(symbol);
    return known == values_.end() ? Scalar::of_int(kUnknownSize) : known->second;
  };
  return evaluate(expr, lookup).as_int();
}

std::vector<int64_t> Run::values(const std::vector<program::Dim>& dims) const {
  std::vector<int64_t> result;
  for (const program::Dim& dim : dims) result.push_back(value(dim));
  return result;
}

void Run::bind(double scale) {
  bound_.clear();
  sizes_.clear();
  memory_.clear();
  for (const program::Input& input : program_->inputs) {
    runtime::BoundInput bound;
    bound.scalar.i = kUnknownSize;
    sizes_.push_back(values(input.sizes));
    if (input.buffer != kNone) {
      const int64_t bytes = extent_bytes(sizes_.back(), values(input.strides), input.dtype);
      memory_.push_back(std::make_unique<GuardedMemory>(bytes));
      fill(memory_.back()->data(), bytes, input.dtype, scale);
      bound.data = memory_.back()->data();
      bound.sizes = sizes_.back().data();
      bound.capacity = bytes;
    }
    bound_.push_back(bound);
  }
}

namespace {

// Far more than the distance of the smallest numbers of a type.
double least_of(DType dtype) { return dtype == DType::kF16 ? 0x1p-20 : is_floating(dtype) ? 0x1p-130 : 0; }

// Whether two elements are the same number, but for rounding and for what almost the same inputs change.
bool agree(double got, double expected, double nearby, double rounding, double least) {
  if (got == expected || (std::isnan(got) && std::isnan(expected))) return true;
  const double known = std::abs(expected - nearby);
  if (!std::isfinite(known)) return true;  // ill-conditioned, or beyond the type
  return std::abs(got - expected) <= rounding * std::abs(expected) + 4 * known + least;
}

}  // namespace

double rounding_of(const ir::Graph& graph) {
  double most = 0x1p-10;
  for (ir::ValueId id = 0; id < graph.num_values(); ++id) {
    if (graph.value(id).tensor().dtype == DType::kF16) most = std::max(most, 0x1p-8);
    if (graph.value(id).tensor().dtype == DType::kBF16) most = std::max(most, 0x1p-5);
  }
  return most;
}

std::string difference(const std::vector<Numbers>& got, const std::vector<Numbers>& expected,
                       const std::vector<Numbers>& nearby, double rounding) {
  if (got.size() != expected.size()) return cat(got.size(), " results, expected ", expected.size());
  for (size_t i = 0; i < got.size(); ++i) {
    if (got[i].dtype != expected[i].dtype || got[i].sizes != expected[i].sizes)
      return cat("result ", i, " is another tensor");
    const double share = is_floating(got[i].dtype) ? rounding : 0;
    for (size_t k = 0; k < got[i].elements.size(); ++k) {
      const double element = got[i].elements[k], wanted = expected[i].elements[k];
      if (!agree(element, wanted, nearby[i].elements[k], share, least_of(got[i].dtype)))
        return cat("element ", k, " of result ", i, " is ", element, ", expected ", wanted);
    }
  }
  return {};
}

}  // namespace npugraph::fuzz
