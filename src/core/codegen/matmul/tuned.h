// SPDX-License-Identifier: Apache-2.0
// Products whose blocks were measured. The choice of a product takes the place of the cheapest blocks wherever a plan
// is made in this process. Choices add each sum in the order of the cheapest blocks, so results are the same bits.
//
// They are kept in a file for each kind of processor and number of its threads, below TUNE_BANK_PATH or in the
// directory of generated code:
//
//   npugraph tuned products 1
//   processor x86-64-v3 ... threads 2
//   f32 x f32 m 37 n 1001 k 259 ... = 3 37 12 48 259
#pragma once

#include <atomic>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "codegen/matmul/matmul.h"

namespace npugraph::codegen {

struct MatmulPlan;

// Blocks as the file has them; nullopt for other text.
std::string print(const MatmulBlocks& blocks);
std::optional<MatmulBlocks> parse_blocks(std::string_view text);

// What decides the plan of a product whose sizes and places are known: element types, sizes and strides.
std::string key_of(const MatmulPlan& plan);

// A product that was planned, with all blocks that it may have; those that it got come first.
struct PlannedProduct {
  std::string key;
  std::vector<MatmulBlocks> blocks;
  bool tuned = false;  // whether it got the blocks of a choice
  bool operator==(const PlannedProduct&) const = default;
};

// Thread-safe.
class TunedProducts {
 public:
  // Those of this process, with what the file of this processor holds.
  static TunedProducts& instance();
  // `path` is that of the file, which is read if it exists; empty: choices are only in memory. Lines that are no
  // choices are left out, and so is a file for another processor, each with a warning.
  TunedProducts(std::string path, std::string processor);

  // Whether find() or note() may do anything.
  bool is_in_use() const { return in_use_.load(std::memory_order_acquire); }
  std::optional<MatmulBlocks> find(const std::string& key) const;
  // Sets the choice of a product in memory; nullopt: the cheapest blocks.
  void choose(const std::string& key, std::optional<MatmulBlocks> blocks);
  // The same, and adds it to the file. A file that cannot be written gives a warning.
  void keep(const std::string& key, const MatmulBlocks& blocks);
  const std::string& path() const { return path_; }

  // Between start() and stop(), products that are planned are noted, each once.
  void start();
  std::vector<PlannedProduct> stop();
  void note(PlannedProduct product);

 private:
  using Choices = std::map<std::string, MatmulBlocks>;
  Choices read() const;
  void write(const Choices& choices) const;
  void update_use() { in_use_ = !choices_.empty() || notes_; }

  std::string path_, processor_;
  mutable std::mutex mutex_;
  Choices choices_;
  std::vector<PlannedProduct> noted_;
  bool notes_ = false;
  std::atomic<bool> in_use_{false};
};

}  // namespace npugraph::codegen
