// SPDX-License-Identifier: Apache-2.0
// Any bytes are either refused as a model with a UserError, or compiled into a Program that runs: with results, or with
// a named error of the run. Inputs end at pages that must not be touched.
//   air_fuzz MODELS [FIRST]       runs the seeds, and MODELS mutated models from number FIRST on
//   air_fuzz --write NUMBER FILE  writes a mutated model
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <fstream>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <sys/mman.h>
#include <unistd.h>

#include "air_mutator.h"
#include "air_seeds.h"
#include "base/error.h"
#include "compiler/task_makers.h"
#include "ge/engine/compile.h"
#include "ge/import/import.h"
#include "ge/wire.h"
#include "program/program.h"
#include "runtime/executable.h"
#include "runtime/malloc_host.h"
#include "tensor/shape.h"

namespace npugraph::fuzz {
namespace {

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

// Small indices, and numbers of both signs.
void fill(char* data, int64_t bytes, DType dtype) {
  for (int64_t i = 0; i < bytes / size_of(dtype); ++i) {
    char* element = data + i * size_of(dtype);
    if (dtype == DType::kF32) {
      const auto value = std::sin(static_cast<float>(i));
      std::memcpy(element, &value, sizeof value);
    } else if (dtype == DType::kF64) {
      const auto value = std::sin(static_cast<double>(i));
      std::memcpy(element, &value, sizeof value);
    } else {
      element[0] = static_cast<char>(i % 2);
    }
  }
}

// A call of a Program in which all unknown sizes are equal.
class Run {
 public:
  explicit Run(std::shared_ptr<const program::Program> program) : program_(std::move(program)) {
    for (const program::Symbol& symbol : program_->symbols) values_.emplace(symbol.name, Scalar::of_int(kUnknownSize));
  }

  // Whether no tensor of the graph has many elements. Loops over some of them are long although they fill no memory.
  bool is_small(const ir::Graph& graph) const {
    for (ir::ValueId id = 0; id < graph.num_values(); ++id) {
      int64_t count = 1;
      for (const Expr& size : graph.value(id).tensor().sizes) {
        if (__builtin_mul_overflow(count, value(size), &count) || count > kMostElements) return false;
      }
    }
    return true;
  }

  void run() {
    bind();
    runtime::MallocHost host;
    runtime::Executable executable(program_, host, compiler::make_task, {}, "fuzz");
    std::vector<runtime::BoundOutput> outputs(program_->outputs.size());
    std::vector<int64_t> dims;
    const runtime::RunResult result = executable.run({.all = bound_}, outputs, dims);
    NG_CHECK(result.status != runtime::RunStatus::kTaskFailed || !result.error.empty(), "an error without a name");
    for (const runtime::BoundOutput& output : outputs) {
      if (output.object != nullptr) host.release(output.object);
    }
  }

 private:
  int64_t value(const Expr& expr) const {
    const auto lookup = [&](const std::string& symbol) {
      const auto known = values_.find(symbol);
      return known == values_.end() ? Scalar::of_int(kUnknownSize) : known->second;
    };
    return evaluate(expr, lookup).as_int();
  }
  int64_t value(const program::Dim& dim) const { return value(program_->expr(dim)); }

  std::vector<int64_t> values(const std::vector<program::Dim>& dims) const {
    std::vector<int64_t> result;
    for (const program::Dim& dim : dims) result.push_back(value(dim));
    return result;
  }

  void bind() {
    for (const program::Input& input : program_->inputs) {
      runtime::BoundInput bound;
      bound.scalar.i = kUnknownSize;
      sizes_.push_back(values(input.sizes));
      if (input.buffer != kNone) {
        const int64_t bytes = extent_bytes(sizes_.back(), values(input.strides), input.dtype);
        memory_.push_back(std::make_unique<GuardedMemory>(bytes));
        fill(memory_.back()->data(), bytes, input.dtype);
        bound.data = memory_.back()->data();
        bound.sizes = sizes_.back().data();
        bound.capacity = bytes;
      }
      bound_.push_back(bound);
    }
  }

  std::shared_ptr<const program::Program> program_;
  std::map<std::string, Scalar> values_;
  std::vector<std::vector<int64_t>> sizes_;
  std::vector<std::unique_ptr<GuardedMemory>> memory_;
  std::vector<runtime::BoundInput> bound_;
};

enum class Outcome { kRefused, kTooLarge, kRan };

// UserError for a model that is refused.
Outcome compile_and_run(const std::string& bytes) {
  const auto owner = std::make_shared<const std::string>(bytes);
  const ge::Model model = ge::parse_model(std::as_bytes(std::span(*owner)), owner, "model");
  Run run(std::make_shared<const program::Program>(ge::compile_model(model).program));
  if (!run.is_small(ge::import_graph(model, ge::graph_of(model), Device{}))) return Outcome::kTooLarge;
  run.run();
  return Outcome::kRan;
}

// Reports what is neither a result nor an error for the user, and leaves the model in a file.
std::optional<Outcome> outcome_of(const std::string& bytes, const std::string& name) {
  try {
    return compile_and_run(bytes);
  } catch (const UserError& error) {
    if (error.what()[0] != '\0') return Outcome::kRefused;
    std::cerr << name << ": an error without a name\n";
  } catch (const std::exception& error) {
    std::cerr << name << ": " << error.what() << "\n";
  }
  const std::string file = name + ".air";
  std::ofstream(file, std::ios::binary) << bytes;
  std::cerr << "the model is in " << file << "\n";
  return std::nullopt;
}

int run_all(uint64_t models, uint64_t first) {
  const std::vector<std::string> seeds = air_seeds();
  for (const std::string& seed : seeds) NG_CHECK(compile_and_run(seed) == Outcome::kRan, "a seed does not run");
  AirMutator mutator(seeds);
  std::map<Outcome, int64_t> counts;
  for (uint64_t number = first; number < first + models; ++number) {
    if (number % 100 == 0) std::cout << "model " << number << std::endl;  // a crash is not far behind it
    const auto outcome = outcome_of(mutator.make(number), cat("model_", number));
    if (!outcome) return 1;
    ++counts[*outcome];
  }
  std::cout << counts[Outcome::kRan] << " ran, " << counts[Outcome::kRefused] << " were refused, "
            << counts[Outcome::kTooLarge] << " were too large to run\n";
  return 0;
}

}  // namespace
}  // namespace npugraph::fuzz

int main(int argc, char** argv) {
  const auto number = [&](int i) { return i < argc ? std::strtoull(argv[i], nullptr, 10) : 0; };
  try {
    if (argc == 4 && argv[1] == std::string("--write")) {
      npugraph::fuzz::AirMutator mutator(npugraph::fuzz::air_seeds());
      std::ofstream(argv[3], std::ios::binary) << mutator.make(number(2));
      return 0;
    }
    if (argc == 2 || argc == 3) return npugraph::fuzz::run_all(number(1), number(2));
    std::cerr << "usage: " << argv[0] << " MODELS [FIRST] | --write NUMBER FILE\n";
    return 2;
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}
