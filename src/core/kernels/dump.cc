// SPDX-License-Identifier: Apache-2.0
// Tensors of a run as files.
#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstring>
#include <ctime>
#include <exception>
#include <filesystem>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/files.h"
#include "kernels/elements.h"
#include "kernels/kernel_table.h"
#include "kernels/kernel_task.h"
#include "tensor/npy.h"

namespace npugraph::kernels {
namespace {

// A tensor in row-major order, in a type that NumPy has.
struct Dense {
  DType dtype = DType::kF32;
  std::vector<char> bytes;
};

// The type in which elements are written: f32 for types of 8 bits, bf16, and c64 for c32, which NumPy lacks.
DType written_type(DType dtype) {
  if (dtype == DType::kBF16 || is_float8(dtype)) return DType::kF32;
  return dtype == DType::kC32 ? DType::kC64 : dtype;
}

float reduced_to_float(DType dtype, const char* at) {
  if (is_float8(dtype)) return float8_to_float(dtype, static_cast<uint8_t>(*at));
  uint16_t bits = 0;
  std::memcpy(&bits, at, sizeof bits);
  return dtype == DType::kBF16 ? to_float(BFloat16{bits}) : to_float(Half{bits});
}

// Appends one element.
void append(std::vector<char>& bytes, DType dtype, const char* at) {
  const auto add = [&](const void* data, int64_t size) {
    const auto* first = static_cast<const char*>(data);
    bytes.insert(bytes.end(), first, first + size);
  };
  if (written_type(dtype) == dtype) return add(at, size_of(dtype));
  const DType part = dtype == DType::kC32 ? DType::kF16 : dtype;
  for (int64_t offset = 0; offset < size_of(dtype); offset += size_of(part)) {
    const float number = reduced_to_float(part, at + offset);
    add(&number, sizeof number);
  }
}

Dense dense(const ng_buffer& buffer) {
  const auto dtype = static_cast<DType>(buffer.dtype);
  Dense made{.dtype = written_type(dtype), .bytes = {}};
  const int64_t count = elements(buffer);
  if (count == 0) return made;
  made.bytes.reserve(static_cast<size_t>(count * size_of(made.dtype)));
  const int64_t row_size = buffer.rank == 0 ? 1 : buffer.sizes[buffer.rank - 1];
  for (int64_t number = 0; number < count / row_size; ++number) {
    const RowOf row = row_at(buffer, buffer.rank - 1, number, size_of(dtype));
    for (int64_t i = 0; i < row_size; ++i) append(made.bytes, dtype, row.at + i * row.stride);
  }
  return made;
}

std::string sizes_text(const ng_buffer& buffer) {
  std::string text;
  for (int d = 0; d < buffer.rank; ++d) text += cat(d == 0 ? "" : "x", buffer.sizes[d]);
  return text;
}

constexpr const char* kColumns =
    "Input/Output,Index,Data Size,Data Type,Format,Shape,Max Value,Min Value,Avg Value,Count,Nan Count,"
    "Negative Inf Count,Positive Inf Count\n";

// The fewest digits that say which number it is.
std::string decimal(double number) {
  std::array<char, 32> text{};
  return {text.data(), std::to_chars(text.data(), text.data() + text.size(), number).ptr};
}

// The largest, the least and the mean element among those that are numbers, and how many are none.
struct Statistics {
  double largest = -std::numeric_limits<double>::infinity(), least = std::numeric_limits<double>::infinity(), sum = 0;
  int64_t numbers = 0, nans = 0, negative = 0, positive = 0;

  void add(double number) {
    if (std::isnan(number)) {
      ++nans;
      return;
    }
    ++numbers;
    negative += static_cast<int64_t>(std::isinf(number) && number < 0);
    positive += static_cast<int64_t>(std::isinf(number) && number > 0);
    largest = std::max(largest, number);
    least = std::min(least, number);
    sum += number;
  }

  std::string text(int64_t count) const {
    const auto mean = sum / static_cast<double>(numbers);
    const std::string values =
        numbers == 0 ? "nan,nan,nan" : cat(decimal(largest), ",", decimal(least), ",", decimal(mean));
    return cat(values, ",", count, ",", nans, ",", negative, ",", positive);
  }
};

template <typename T>
void add_all(const Dense& dense, Statistics& statistics) {
  for (size_t at = 0; at < dense.bytes.size(); at += sizeof(T)) {
    T element{};
    std::memcpy(&element, &dense.bytes[at], sizeof element);
    if constexpr (kIsReduced<T>)
      statistics.add(to_float(element));
    else
      statistics.add(static_cast<double>(element));
  }
}

Statistics statistics_of(const Dense& dense) {
  Statistics statistics;
  switch (dense.dtype) {
    case DType::kU16: add_all<uint16_t>(dense, statistics); break;
    case DType::kU32: add_all<uint32_t>(dense, statistics); break;
    case DType::kU64: add_all<uint64_t>(dense, statistics); break;
    // Complex numbers have no order; the others are those of with_type().
    default: with_type(dense.dtype, [&](auto tag) { add_all<typename decltype(tag)::type>(dense, statistics); });
  }
  return statistics;
}

// The time of the first dump of this process.
const std::string& start_text() {
  static const std::string text = [] {
    const std::time_t seconds = std::time(nullptr);
    std::tm local{};
    localtime_r(&seconds, &local);
    char buffer[32];
    return std::string(buffer, std::strftime(buffer, sizeof buffer, "%Y%m%d%H%M%S", &local));
  }();
  return text;
}

int64_t microseconds_now() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::microseconds>(now).count();
}

std::vector<int64_t> integers_of(const ng_attribute& attribute) {
  std::vector<int64_t> numbers;
  for (const ng_value& value : std::span(attribute.values, attribute.count)) numbers.push_back(value.number.i);
  return numbers;
}

// Attributes: tensors, their places among those of the operator, first and last run of each range of runs (none for all
// runs), directory, graph, operator, "input" or "output", whether statistics are written. Each task counts its own
// runs, which are those of its graph.
class Dump {
 public:
  struct State {};

  explicit Dump(const ng_definition& task) {
    constexpr int kKinds[] = {NG_VALUE_OPERAND, NG_VALUE_INT,  NG_VALUE_INT,  NG_VALUE_TEXT,
                              NG_VALUE_TEXT,    NG_VALUE_TEXT, NG_VALUE_TEXT, NG_VALUE_BOOL};
    bool fits = task.num_attributes == std::size(kKinds);
    for (size_t i = 0; fits && i < std::size(kKinds); ++i) {
      const ng_attribute& attribute = task.attributes[i];
      fits = (attribute.is_list != 0) == (i < 3);
      for (const ng_value& value : std::span(attribute.values, attribute.count))
        fits = fits && value.kind == kKinds[i] && value.scalar < 0;
    }
    if (!fits) refuse(task, "takes tensors, places, steps, directory, graph, operator, side, statistics");
    operands_ = integers_of(task.attributes[0]);
    places_ = integers_of(task.attributes[1]);
    steps_ = integers_of(task.attributes[2]);
    if (places_.size() != operands_.size() || steps_.size() % 2 != 0)
      refuse(task, "has a place for each tensor, and two numbers for each range of runs");
    const auto text = [&](size_t i) { return std::string(task.attributes[i].values->text); };
    directory_ = text(3);
    graph_ = text(4);
    operator_ = text(5);
    side_ = text(6);
    has_statistics_ = task.attributes[7].values->number.i != 0;
  }

  static bool bind(const ng_call&, State&) { return true; }

  ng_status run(const State&, ng_call& call) const {
    const int64_t step = runs_.fetch_add(1, std::memory_order_relaxed);
    if (!is_asked_for(step)) return NG_OK;
    try {
      write(step, call);
      return NG_OK;
    } catch (const std::exception& error) {
      call.host->set_error(call.host, cat("the dump of tensors: ", error.what()).c_str());
      return NG_ERROR;
    }
  }

 private:
  bool is_asked_for(int64_t step) const {
    for (size_t i = 0; i < steps_.size(); i += 2) {
      if (steps_[i] <= step && step <= steps_[i + 1]) return true;
    }
    return steps_.empty();
  }

  void write(int64_t step, const ng_call& call) const {
    const auto folder = std::filesystem::path(directory_) / start_text() / graph_ / std::to_string(step);
    std::filesystem::create_directories(folder);
    const std::string stem = cat((folder / operator_).string(), ".", microseconds_now(), ".", side_);
    if (has_statistics_) return write_statistics(cat(stem, ".csv"), call);
    for (size_t i = 0; i < operands_.size(); ++i) {
      const ng_buffer& buffer = call.buffers[operands_[i]];
      const Dense tensor = dense(buffer);
      const std::span sizes(buffer.sizes, static_cast<size_t>(buffer.rank));
      write_npy(cat(stem, ".", places_[i], ".npy"), tensor.dtype, sizes, tensor.bytes);
    }
  }

  void write_statistics(const std::string& path, const ng_call& call) const {
    const std::string side = side_ == "input" ? "Input" : "Output";
    std::string rows = kColumns;
    for (size_t i = 0; i < operands_.size(); ++i) {
      const ng_buffer& buffer = call.buffers[operands_[i]];
      const auto dtype = static_cast<DType>(buffer.dtype);
      const int64_t count = elements(buffer);
      rows += cat(side, ",", places_[i], ",", count * size_of(dtype), ",", name_of(dtype), ",ND,", sizes_text(buffer),
                  ",", statistics_of(dense(buffer)).text(count), "\n");
    }
    AtomicFile file(path, "statistics of tensors", AtomicFile::Readers::kShared);
    file.write(std::as_bytes(std::span(rows)));
    file.commit_unsynced();
  }

  std::vector<int64_t> operands_, places_, steps_;
  std::string directory_, graph_, operator_, side_;
  bool has_statistics_ = false;
  mutable std::atomic<int64_t> runs_ = 0;
};

ng_task make_dump(const ng_definition& task) { return make_task(std::make_unique<Dump>(task)); }

// There is nothing to compare: the task has no results.
ng_status reference_dump(const ng_definition&, ng_call*) { return NG_OK; }

constexpr Kernel kDumpRows[] = {
    {"kernel.dump", "(tensors, places, steps, directory, graph, operator, side, statistics: bool) -> nothing: files",
     made_by<make_dump>, reference_dump},
};

}  // namespace

std::span<const Kernel> dump_kernels() { return kDumpRows; }

}  // namespace npugraph::kernels
