// SPDX-License-Identifier: Apache-2.0
#include "lower/generated/merge_products.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "base/error.h"
#include "loop/text.h"
#include "loop/walk.h"
#include "program/task_text.h"

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

}  // namespace npugraph::lower
