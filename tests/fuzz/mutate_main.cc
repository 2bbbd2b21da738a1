// SPDX-License-Identifier: Apache-2.0
// Runs a libFuzzer entry where there is no libFuzzer: on the seeds, then on random mutations of them, the same ones in
// every run. What the entry throws ends the run, with the input printed.
//   <program> ITERATIONS SEED_FILE...
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <iostream>
#include <iterator>
#include <random>
#include <string>
#include <string_view>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

// What parsers of text stumble over.
constexpr std::string_view kTokens[] = {"-",
                                        "-1",
                                        "9223372036854775807",
                                        "-9223372036854775808",
                                        "1e999",
                                        "nan",
                                        "(",
                                        ")",
                                        "[",
                                        "]",
                                        "{",
                                        "}",
                                        "\"",
                                        "%",
                                        "=",
                                        ",",
                                        "\\",
                                        "\n",
                                        "//",
                                        "s0",
                                        "f32"};

class Mutator {
 public:
  explicit Mutator(std::vector<std::string> seeds) : seeds_(std::move(seeds)) {}

  std::string next() {
    std::string text = any_seed();
    for (size_t left = below(4) + 1; left > 0; --left) mutate(text);
    return text;
  }

 private:
  size_t below(size_t limit) { return limit == 0 ? 0 : random_() % limit; }
  const std::string& any_seed() { return seeds_[below(seeds_.size())]; }

  void mutate(std::string& text) {
    const size_t at = below(text.size() + 1);
    const size_t length = std::min(below(40), text.size() - at);
    switch (below(5)) {
      case 0: text.erase(at, length); break;
      case 1: text.insert(below(text.size() + 1), text.substr(at, length)); break;
      case 2: text.replace(at, std::min<size_t>(length, 4), kTokens[below(std::size(kTokens))]); break;
      case 3:
        if (at < text.size()) text[at] = static_cast<char>(random_());
        break;
      case 4: text = text.substr(0, at) + any_seed().substr(0, length * 4); break;
    }
  }

  std::vector<std::string> seeds_;
  std::mt19937_64 random_{0};
};

bool accepts(const std::string& text) {
  try {
    LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(text.data()), text.size());
    return true;
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\non this input:\n" << text << "\n";
    return false;
  }
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> seeds;
  for (int i = 2; i < argc; ++i) {
    std::ifstream file(argv[i], std::ios::binary);
    seeds.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
    if (!file || seeds.back().empty()) {
      std::cerr << "cannot read the seed " << argv[i] << "\n";
      return 2;
    }
  }
  if (seeds.empty()) {
    std::cerr << "usage: " << argv[0] << " ITERATIONS SEED_FILE...\n";
    return 2;
  }
  if (!std::all_of(seeds.begin(), seeds.end(), accepts)) return 1;
  Mutator mutator(seeds);
  for (int64_t left = std::atoll(argv[1]); left > 0; --left) {
    if (!accepts(mutator.next())) return 1;
  }
  return 0;
}
