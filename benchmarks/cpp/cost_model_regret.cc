// SPDX-License-Identifier: Apache-2.0
// How much longer kernels take as the cost model chooses them than in the best of the candidates. Prints a line of JSON
// for each kernel: microseconds per call of the one that is chosen and of the best one, over rounds in which all take
// turns. Which is the best is told by the other half of the rounds, so that it is not the luckiest one.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string_view>

#include "base/error.h"
#include "benchmarks/cpp/regret_cases.h"
#include "benchmarks/cpp/timing.h"

namespace npugraph {
namespace {

constexpr double kSampleSeconds = 3e-4;
constexpr int kScreening = 5;  // rounds after which those that are far behind leave
constexpr double kFarBehind = 1.5;

struct Sampled {
  const Candidate* candidate;
  std::vector<double> screening, telling, told;  // seconds per call
};

// Other processes only slow down: the fastest third of the samples, in order.
std::vector<double> undisturbed(std::vector<double> seconds) {
  std::ranges::sort(seconds);
  seconds.resize((seconds.size() + 2) / 3);
  return seconds;
}

double median(const std::vector<double>& seconds) {
  const std::vector<double> fast = undisturbed(seconds);
  return fast[fast.size() / 2];
}

double sample(const Sampled& of, int calls) {
  of.candidate->run();  // the first call after another kernel pays for that one
  const double start = seconds();
  for (int i = 0; i < calls; ++i) of.candidate->run();
  return (seconds() - start) / calls;
}

// In an order of chance, so that nobody follows the same one more often than others do.
void take_turns(std::vector<Sampled>& all, std::vector<double> Sampled::* into, int calls) {
  static std::minstd_rand random(1);
  std::vector<Sampled*> order;
  for (Sampled& one : all) order.push_back(&one);
  std::ranges::shuffle(order, random);
  for (Sampled* one : order) (one->*into).push_back(sample(*one, calls));
}

std::string list(const std::vector<double>& seconds) {
  std::string text;
  for (const double value : seconds) text += cat(text.empty() ? "" : ", ", value * 1e6);
  return cat("[", text, "]");
}

void measure(const std::string& name, const Candidates& candidates, int rounds) {
  std::vector<Sampled> all;
  for (const Candidate& candidate : candidates) sample(all.emplace_back(Sampled{.candidate = &candidate}), 1);
  for (int round = 0; round < kScreening; ++round) take_turns(all, &Sampled::screening, 1);
  const auto screened = [](const Sampled& one) { return *std::ranges::min_element(one.screening); };
  const double least = screened(*std::ranges::min_element(all, {}, screened));
  const auto is_behind = [&](const Sampled& one) {
    return one.candidate != &candidates.front() && screened(one) > kFarBehind * least;
  };
  std::erase_if(all, is_behind);
  // As many of each, so that what changes from one to the other weighs the same.
  const int calls = std::clamp(static_cast<int>(kSampleSeconds / std::max(least, 1e-9)), 1, 10000);
  for (int round = 0; round < 2 * rounds; ++round)
    take_turns(all, round % 2 == 0 ? &Sampled::telling : &Sampled::told, calls);
  const Sampled& best = *std::ranges::min_element(all, {}, [](const Sampled& one) { return median(one.telling); });
  std::string medians;
  for (const Sampled& one : all)
    medians += cat(medians.empty() ? "" : ", ", "\"", one.candidate->name, "\": ", median(one.telling) * 1e6);
  const std::string line =
      cat("{\"case\": \"", name, "\", \"candidates\": ", candidates.size(), ", \"chosen\": \"", candidates.front().name,
          "\", \"best\": \"", best.candidate->name, "\", \"chosen_us\": ", list(undisturbed(all.front().told)),
          ", \"best_us\": ", list(undisturbed(best.told)), ", \"near_us\": {", medians, "}}");
  std::puts(line.c_str());
  std::fflush(stdout);
}

}  // namespace
}  // namespace npugraph

// Arguments: rounds, then a part of the names of the kernels to be measured; all without one.
int main(int argc, char** argv) {
  using namespace npugraph;
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 15;
  const std::string_view wanted = argc > 2 ? argv[2] : "";
  if (rounds < 1 || argc > 3) {
    std::fprintf(stderr, "usage: %s [ROUNDS [PART_OF_A_CASE_NAME]]\n", argv[0]);
    return 2;
  }
  runtime::WorkerPool::instance().begin_replay();
  for (const RegretCase& one : regret_cases()) {
    if (one.name.find(wanted) != std::string::npos) measure(one.name, one.candidates(), rounds);
  }
  runtime::WorkerPool::instance().end_replay();
  return 0;
}
