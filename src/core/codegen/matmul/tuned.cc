// SPDX-License-Identifier: Apache-2.0
#include "codegen/matmul/tuned.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <span>
#include <sstream>

#include <sched.h>

#include "base/env.h"
#include "base/error.h"
#include "base/files.h"
#include "base/log.h"
#include "codegen/matmul/plan.h"

namespace npugraph::codegen {
namespace {

constexpr std::string_view kHead = "npugraph tuned products 1";
constexpr std::string_view kEquals = " = ";

int threads_of_process() {
  cpu_set_t set;
  return ::sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;
}

// FNV-1a, whose values are the same in every process.
uint64_t fnv1a(std::string_view text) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return hash;
}

std::string text_of_processor() {
  return cat("processor ", target::print(target::host_target()), " threads ", threads_of_process());
}

std::string path_for(const std::string& processor) {
  const std::string& bank = environment().tune_bank;
  const std::string cache = bank.empty() ? cache_directory() : "";
  if (bank.empty() && cache.empty()) return "";
  std::array<char, 17> digits{};
  std::to_chars(digits.data(), digits.data() + 16, fnv1a(processor), 16);
  return cat(bank.empty() ? cat(cache, "/tuned") : bank, "/products-", target::host_target().level, "-", digits.data(),
             ".txt");
}

std::string text_of(const MatrixPlace& place) { return cat(name_of(place.dtype), " ", place.row, " ", place.column); }

}  // namespace

std::string print(const MatmulBlocks& blocks) {
  return cat(static_cast<int>(blocks.form), " ", blocks.tile_rows, " ", blocks.block_rows, " ", blocks.block_columns,
             " ", blocks.block_steps);
}

std::optional<MatmulBlocks> parse_blocks(std::string_view text) {
  std::array<int64_t, 5> numbers{};
  const char *at = text.data(), *end = text.data() + text.size();
  for (size_t i = 0; i < numbers.size(); ++i) {
    if (i > 0 && (at == end || *at++ != ' ')) return {};
    const auto [next, error] = std::from_chars(at, end, numbers[i]);
    if (error != std::errc() || numbers[i] < 0) return {};
    at = next;
  }
  if (at != end || numbers[0] > static_cast<int64_t>(Form::kPackB)) return {};
  return MatmulBlocks{static_cast<Form>(numbers[0]), numbers[1], numbers[2], numbers[3], numbers[4]};
}

std::string key_of(const MatmulPlan& plan) {
  return cat("m ", plan.m, " n ", plan.n, " k ", plan.k, " batches ", plan.batches, " a ", text_of(plan.a), " b ",
             text_of(plan.b), " ends ", plan.end_buffer - plan.first_end, " slices ", plan.slices_of_row);
}

TunedProducts& TunedProducts::instance() {
  static TunedProducts& products = [&]() -> TunedProducts& {
    const std::string processor = text_of_processor();
    return *new TunedProducts(path_for(processor), processor);
  }();
  return products;
}

TunedProducts::TunedProducts(std::string path, std::string processor)
    : path_(std::move(path)), processor_(std::move(processor)), choices_(read()) {
  update_use();
}

TunedProducts::Choices TunedProducts::read() const {
  Choices choices;
  std::ifstream file(path_);
  if (path_.empty() || !file) return choices;
  std::string head, processor, line;
  std::getline(file, head);
  std::getline(file, processor);
  if (head != kHead || processor != processor_) {
    log_warning(cat(path_, " is ignored: it has no tuned products of this version for this processor"));
    return choices;
  }
  int64_t others = 0;
  while (std::getline(file, line)) {
    const size_t equals = line.find(kEquals);
    const auto blocks = equals == std::string::npos
                            ? std::nullopt
                            : parse_blocks(std::string_view(line).substr(equals + kEquals.size()));
    if (blocks)
      choices[line.substr(0, equals)] = *blocks;
    else
      ++others;
  }
  if (others > 0) log_warning(cat(others, " lines of ", path_, " are ignored: they are no tuned products"));
  return choices;
}

void TunedProducts::write(const Choices& choices) const {
  std::string text = cat(kHead, "\n", processor_, "\n");
  for (const auto& [key, blocks] : choices) text += cat(key, kEquals, print(blocks), "\n");
  try {
    std::filesystem::create_directories(std::filesystem::path(path_).parent_path());
    AtomicFile file(path_, "tuned products");
    file.write(std::as_bytes(std::span(text)));
    file.commit();
  } catch (const std::exception& error) {
    log_warning(error.what());
  }
}

std::optional<MatmulBlocks> TunedProducts::find(const std::string& key) const {
  const std::lock_guard lock(mutex_);
  const auto found = choices_.find(key);
  return found == choices_.end() ? std::nullopt : std::optional(found->second);
}

void TunedProducts::choose(const std::string& key, std::optional<MatmulBlocks> blocks) {
  const std::lock_guard lock(mutex_);
  if (blocks)
    choices_[key] = *blocks;
  else
    choices_.erase(key);
  update_use();
}

void TunedProducts::keep(const std::string& key, const MatmulBlocks& blocks) {
  choose(key, blocks);
  if (path_.empty()) return;
  const std::lock_guard lock(mutex_);
  Choices of_file = read();  // other processes may have added some
  of_file[key] = blocks;
  write(of_file);
}

void TunedProducts::start() {
  const std::lock_guard lock(mutex_);
  noted_.clear();
  notes_ = true;
  update_use();
}

std::vector<PlannedProduct> TunedProducts::stop() {
  const std::lock_guard lock(mutex_);
  notes_ = false;
  update_use();
  return std::exchange(noted_, {});
}

void TunedProducts::note(PlannedProduct product) {
  const std::lock_guard lock(mutex_);
  if (notes_ && std::ranges::find(noted_, product.key, &PlannedProduct::key) == noted_.end())
    noted_.push_back(std::move(product));
}

}  // namespace npugraph::codegen
