// SPDX-License-Identifier: Apache-2.0
// Any bytes are either refused as a model with a UserError, or compiled into a Program that runs: with a named error of
// the run, or with the results of the same graph without passes and fusion. Inputs end at pages that must not be
// touched.
//   air_fuzz MODELS [FIRST]       runs the seeds, and MODELS mutated models from number FIRST on
//   air_fuzz --write NUMBER FILE  writes a mutated model
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "air_mutator.h"
#include "air_run.h"
#include "air_seeds.h"
#include "base/error.h"
#include "compiler/pipeline.h"
#include "ge/engine/compile.h"
#include "ge/import/import.h"
#include "ge/wire.h"
#include "lower/lower.h"
#include "plan/plan.h"

namespace npugraph::fuzz {
namespace {

// Almost 1: results of inputs that are multiplied by it show how much rounding may change results.
constexpr double kNearby = 1 + 0x1p-12;

enum class Outcome { kRefused, kTooLarge, kFailed, kNotCompared, kRan };

// A Program whose nodes are tasks of their own, without the passes that can be done without; null if a node has no code
// that a pass would have replaced.
std::shared_ptr<const program::Program> compile_plainly(const ir::Graph& imported) {
  const compiler::CompileHost host = ge::host_without_operators();
  compiler::CompileRequest request;
  request.generate = true;
  request.passes = {"expand_batch_norm", "dce"};
  const ir::Graph graph = compiler::graph_after(imported, request.passes.size(), request, host);
  const lower::LowerOptions options{.generate = true, .join = false, .place_parts = false};
  try {
    auto program = std::make_shared<program::Program>(lower::lower(graph, *host.catalog, options).program);
    plan::plan(*program);
    return program;
  } catch (const UserError&) {
    return nullptr;
  }
}

// UserError for a model that is refused.
Outcome compile_and_run(const std::string& bytes) {
  const auto owner = std::make_shared<const std::string>(bytes);
  const ge::Model model = ge::parse_model(std::as_bytes(std::span(*owner)), owner, "model");
  const ir::Graph graph = ge::import_graph(model, ge::graph_of(model), Device{});
  Run run(std::make_shared<const program::Program>(ge::compile_imported(graph).program));
  if (!run.is_small(graph)) return Outcome::kTooLarge;
  const std::vector<Numbers> results = run.run(1);
  if (results.empty()) return Outcome::kFailed;
  const auto plain = compile_plainly(graph);
  if (plain == nullptr) return Outcome::kNotCompared;
  Run reference(plain);
  const std::vector<Numbers> nearby = reference.run(kNearby);
  if (nearby.empty()) return Outcome::kNotCompared;
  const std::string wrong = difference(results, reference.run(1), nearby, rounding_of(graph));
  NG_CHECK(wrong.empty(), wrong);
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
            << counts[Outcome::kTooLarge] << " were too large to run, " << counts[Outcome::kFailed] << " failed, "
            << counts[Outcome::kNotCompared] << " have nothing to compare with\n";
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
