// SPDX-License-Identifier: Apache-2.0
#include "lower/generated/merge_products.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "base/error.h"
#include "loop/slices.h"
#include "loop/text.h"
#include "loop/walk.h"
#include "program/program.h"

namespace npugraph::lower {

namespace {

using program::Access;
using program::Operand;
using program::Task;
using program::text_of;

// Whether the task is a plain product that updates no operand in place.
bool is_product_task(const Task& task) {
  const std::string* text = text_of(task);
  return task.kind == program::TaskKind::kMatmul && text != nullptr && loop::is_kernel_text(*text) &&
         task.defines.empty() &&
         std::ranges::none_of(task.operands, [](const Operand& x) { return x.access == Access::kReadWrite; });
}

bool writes_operand_of(const Task& writer, const Task& other) {
  return std::ranges::any_of(writer.operands, [&](const Operand& written) {
    return written.access != Access::kRead &&
           std::ranges::any_of(other.operands, [&](const Operand& x) { return x.buffer == written.buffer; });
  });
}

bool touches_operand_of(const Task& first, const Task& second) {
  return writes_operand_of(first, second) || writes_operand_of(second, first);
}

// Whether a product may run before `other` instead of behind it.
bool passes(const Task& product, const Task& other) {
  return program::is_generated(other.kind) && other.stream == product.stream && other.defines.empty() &&
         !touches_operand_of(product, other);
}

// The places where the kernel of a product accesses a buffer: the loops around each access, and its index. They are
// unknown if an index uses computed values.
class Places {
 public:
  Places(const loop::Kernel& kernel, int32_t buffer) : buffer_(buffer) { find(kernel.body); }
  // Whether all accesses are at one place, which is also the only place of `other`.
  bool all_are(const Places& other) const {
    const auto is_first = [&](const std::vector<Expr>& place) { return place == found_.front(); };
    return known_ && other.known_ && !found_.empty() && std::ranges::all_of(found_, is_first) &&
           !other.found_.empty() && std::ranges::all_of(other.found_, is_first);
  }

 private:
  void find(const std::vector<loop::Stmt>& block) {
    for (const loop::Stmt& stmt : block) {
      if (const auto* loop = std::get_if<loop::For>(&stmt.node)) {
        loops_.insert(loops_.end(), {Expr::symbol(loop->var), loop->extent});
        find(loop->body);
        loops_.resize(loops_.size() - 2);
      }
      if (const auto* load = std::get_if<loop::Load>(&stmt.node)) add(load->buffer, load->index);
      if (const auto* store = std::get_if<loop::Store>(&stmt.node)) add(store->buffer, store->index);
    }
  }
  void add(int32_t buffer, const Expr& index) {
    if (buffer != buffer_) return;
    found_.push_back(loops_);
    found_.back().push_back(index);
    loop::for_each_index_value(index, [&](loop::ValueId) { known_ = false; });
  }

  const int32_t buffer_;
  std::vector<Expr> loops_;
  std::vector<std::vector<Expr>> found_;
  bool known_ = true;
};

// Whether the epilogue of `second`, a product of the same form, reads the result of `first` as a gate: for each sum,
// the element that `first` stores at that place.
bool is_in_step(const Task& first, const Task& second) {
  if (writes_operand_of(second, first) || !same_window(first.operands[1], second.operands[1])) return false;
  const auto made = loop::parse_all(*text_of(first), first.name), read = loop::parse_all(*text_of(second), second.name);
  if (made.size() != 1 || read.size() != 1) return false;
  // Buffers of a kernel: the sums, then the operands of the task behind both factors.
  const auto writes = [](const Operand& x) { return x.access == Access::kWrite; };
  if (std::ranges::count_if(first.operands, writes) != 1) return false;
  const auto gate = std::ranges::find_if(first.operands, writes);
  const Places put(made[0], static_cast<int32_t>(gate - first.operands.begin()) - 1);
  for (size_t i = 0; i < second.operands.size(); ++i) {
    const Operand& x = second.operands[i];
    if (x.buffer != gate->buffer) continue;
    const bool is_same = x.dtype == gate->dtype && same_elements(x, *gate);
    if (i < 2 || !is_same || !put.all_are(Places(read[0], static_cast<int32_t>(i) - 1))) return false;
  }
  return true;
}

bool merge_into(Task& first, const Task& second) {
  if (!is_product_task(first) || first.stream != second.stream) return false;
  const Operand& a = first.operands.at(0);
  const Operand& same = second.operands.at(0);
  const bool shared = a.buffer == same.buffer && a.dtype == same.dtype && same_window(a, same);
  if (!shared || first.operands.at(1).dtype != second.operands.at(1).dtype) return false;
  if (touches_operand_of(first, second) && !is_in_step(first, second)) return false;

  const auto moved = [&](int32_t x) { return x == 0 ? 0 : x + static_cast<int32_t>(first.operands.size()) - 1; };
  for (const auto& [written, read] : second.may_share) first.may_share.push_back({moved(written), moved(read)});
  std::get<std::string>(first.args.front()) += *text_of(second);
  first.args.insert(first.args.end(), second.args.begin() + 1, second.args.end());
  first.scalars.insert(first.scalars.end(), second.scalars.begin(), second.scalars.end());
  first.operands.insert(first.operands.end(), second.operands.begin() + 1, second.operands.end());
  first.name += second.name.substr(program::name_of(second.kind).size());
  first.origin += cat(first.origin.empty() ? "" : ", ", second.origin);
  return true;
}

// Most tasks that a product moves up over, each of which makes its results live longer: a norm and a rotation for each
// of the other products.
constexpr size_t kMostPassedByProduct = 4;

}  // namespace

std::optional<size_t> merge_product(std::vector<Task>& tasks) {
  if (tasks.empty() || !is_product_task(tasks.back())) return {};
  const size_t last = tasks.size() - 1;
  for (size_t at = last; at-- > 0 && last - at <= kMostPassedByProduct + 1;) {
    if (merge_into(tasks[at], tasks[last])) {
      tasks.pop_back();
      return at;
    }
    if (!passes(tasks[last], tasks[at])) return {};
  }
  return {};
}

namespace {

using program::TaskKind;

constexpr size_t kSecond = 1;  // operand of a product: its second factor

bool reads(const Operand& operand) { return operand.access == Access::kRead; }

// The number of elements; nullopt if a size is not constant.
std::optional<int64_t> count(const Operand& operand) {
  int64_t elements = 1;
  for (const program::Dim& size : operand.sizes) {
    if (!size.is_constant()) return {};
    elements *= size.constant;
  }
  return elements;
}

// Stores past the caches suit a matrix that is read much later.
void store_through_caches(std::vector<loop::Stmt>& body) {
  for (loop::Stmt& stmt : body) {
    if (auto* store = std::get_if<loop::Store>(&stmt.node)) store->streaming = false;
    if (auto* loop = std::get_if<loop::For>(&stmt.node)) store_through_caches(loop->body);
  }
}

class Merger {
 public:
  Merger(program::Program& program, std::vector<TaskNote>& notes)
      : program_(program), notes_(notes), touched_(program.buffers.size()) {
    for (size_t i = 0; i < program.tasks.size(); ++i) {
      for (const Operand& operand : program.tasks[i].operands) touched_[operand.buffer].push_back(i);
    }
  }

  // Makes the loop that computes the second factor of a product part of the product. Returns the loop, whose task then
  // has no use.
  std::optional<size_t> merge(size_t at) {
    Task& product = program_.tasks[at];
    const std::string* text = text_of(product);
    if (product.kind != TaskKind::kMatmul || text == nullptr || !loop::is_kernel_text(*text)) return {};
    const int32_t matrix = product.operands.at(kSecond).buffer;
    const std::vector<size_t>& touched = touched_[matrix];
    if (program_.buffers[matrix].cls != program::BufferClass::kArena || touched.size() != 2) return {};
    const size_t made = touched.front();
    auto kernel = find_factor(made, product);
    if (!kernel || !may_move(made, at) || loop::parse_all(*text, product.name).size() != 1) return {};
    kernel->name = loop::kFactor;
    store_through_caches(kernel->body);
    join(product, program_.tasks[made], loop::print(*kernel));
    notes_[at].operations = notes_[at].operations + notes_[made].operations;
    return made;
  }

 private:
  // The kernel of the task, if it can compute the second factor of the product row by row.
  std::optional<loop::Kernel> find_factor(size_t made, const Task& product) const {
    const Task& task = program_.tasks[made];
    const std::string* text = text_of(task);
    if (task.kind != TaskKind::kLoop || text == nullptr || !loop::is_kernel_text(*text) || notes_[made].may_fail)
      return {};
    loop::Kernel kernel = loop::parse(*text, task.name);
    const auto slices = loop::find_slices(kernel);
    if (!slices || kernel.buffers.size() != task.operands.size()) return {};
    const Operand& b = product.operands[kSecond];
    const Operand& result = task.operands[slices->result];
    const auto of_b = count(b);
    if (!of_b || b.sizes.size() != 2 || slices->elements() != *of_b || result.dtype != b.dtype) return {};
    const int64_t k = b.sizes[0].constant;
    const bool dense = b.strides[0] == program::Dim{1} && b.strides[1] == program::Dim{k};
    if (!dense || k % slices->each != 0 || !begins(b) || !begins(result) || !reads_less(task, *of_b * size_of(b.dtype)))
      return {};
    return kernel;
  }

  static bool begins(const Operand& operand) { return operand.byte_offset == program::Dim{}; }

  static bool reads_less(const Task& task, int64_t bytes) {
    for (const Operand& operand : task.operands) {
      if (!reads(operand)) continue;
      const auto elements = count(operand);
      if (!elements) return false;
      bytes -= *elements * size_of(operand.dtype);
    }
    return bytes > 0;
  }

  // Whether the loop may run where the product does, which then reads its operands while it writes results.
  bool may_move(size_t made, size_t at) const {
    const Task& loop = program_.tasks[made];
    if (loop.stream != program_.tasks[at].stream || !loop.waits.empty() || !(loop.limits == program_.tasks[at].limits))
      return false;
    for (const Operand& read : loop.operands) {
      if (!reads(read)) continue;
      for (const size_t i : touched_[read.buffer]) {
        const bool writes = std::ranges::any_of(program_.tasks[i].operands,
                                                [&](const Operand& x) { return x.buffer == read.buffer && !reads(x); });
        // Panels of the first factor may take its place.
        const bool is_first = i == at && program_.tasks[at].operands[0].buffer == read.buffer;
        if ((writes && i > made && i <= at) || is_first) return false;
      }
    }
    return true;
  }

  // The operands that the loop reads take the place of the second factor.
  static void join(Task& product, const Task& made, const std::string& kernel) {
    std::vector<Operand> inputs;
    std::ranges::copy_if(made.operands, std::back_inserter(inputs), reads);
    const auto more = static_cast<int32_t>(inputs.size()) - 1;
    for (auto& [written, read] : product.may_share) {
      if (written > static_cast<int32_t>(kSecond)) written += more;
      if (read > static_cast<int32_t>(kSecond)) read += more;
    }
    const auto second = product.operands.erase(product.operands.begin() + kSecond);
    product.operands.insert(second, inputs.begin(), inputs.end());
    auto& text = std::get<std::string>(product.args.front());
    text = kernel + text;
    const std::string_view kind = program::name_of(product.kind);
    product.name = cat(kind, made.name.substr(program::name_of(made.kind).size()), product.name.substr(kind.size()));
    product.origin = cat(made.origin, made.origin.empty() ? "" : ", ", product.origin);
  }

  program::Program& program_;
  std::vector<TaskNote>& notes_;
  std::vector<std::vector<size_t>> touched_;  // per buffer: the tasks that touch it, once for each operand
};

// Removes tasks, which are in rising order.
void remove(program::Program& program, std::vector<TaskNote>& notes, const std::vector<size_t>& removed) {
  std::vector<Task> tasks;
  std::vector<TaskNote> left;
  std::vector<int32_t> moved_to;
  for (size_t i = 0; i < program.tasks.size(); ++i) {
    moved_to.push_back(static_cast<int32_t>(tasks.size()));
    if (std::ranges::binary_search(removed, i)) continue;
    tasks.push_back(std::move(program.tasks[i]));
    left.push_back(notes[i]);
  }
  for (program::Symbol& symbol : program.symbols) {
    if (symbol.task != program::kNone) symbol.task = moved_to[symbol.task];
  }
  program.tasks = std::move(tasks);
  notes = std::move(left);
}

}  // namespace

void merge_factors(program::Program& program, std::vector<TaskNote>& notes) {
  // Tasks of other streams wait for tasks by their places.
  if (program::has_streams(program)) return;
  Merger merger(program, notes);
  std::vector<size_t> removed;
  for (size_t i = 0; i < program.tasks.size(); ++i) {
    if (const auto made = merger.merge(i)) removed.push_back(*made);
  }
  std::ranges::sort(removed);
  if (!removed.empty()) remove(program, notes, removed);
}

}  // namespace npugraph::lower
