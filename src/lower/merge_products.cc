// SPDX-License-Identifier: Apache-2.0
#include "lower/merge_products.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "base/error.h"
#include "loop/text.h"

namespace npugraph::lower {
namespace {

using program::Access;
using program::Operand;
using program::Task;

const std::string* text_of(const Task& task) {
  return task.args.empty() ? nullptr : std::get_if<std::string>(&task.args.front());
}

// A product that writes memory of its own, and nothing else.
bool is_plain(const Task& task) {
  const std::string* text = text_of(task);
  return task.kind == program::TaskKind::kMatmul && text != nullptr && loop::is_kernel_text(*text) &&
         task.may_share.empty() && task.defines.empty() &&
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

bool merge(Task& first, const Task& second) {
  if (!is_plain(first) || first.stream != second.stream) return false;
  const Operand& a = first.operands.at(0);
  const Operand& same = second.operands.at(0);
  const bool shared = a.buffer == same.buffer && a.dtype == same.dtype && same_window(a, same);
  if (!shared || first.operands.at(1).dtype != second.operands.at(1).dtype) return false;
  if (touches_operand_of(first, second)) return false;

  std::get<std::string>(first.args.front()) += *text_of(second);
  first.args.insert(first.args.end(), second.args.begin() + 1, second.args.end());
  first.scalars.insert(first.scalars.end(), second.scalars.begin(), second.scalars.end());
  first.operands.insert(first.operands.end(), second.operands.begin() + 1, second.operands.end());
  first.name += second.name.substr(program::name_of(second.kind).size());
  first.origin += cat(first.origin.empty() ? "" : ", ", second.origin);
  return true;
}

// Results live longer for each task that is passed: over no more than a norm and a rotation of each of the others.
constexpr size_t kMostPassed = 4;

}  // namespace

std::optional<size_t> merge_product(std::vector<Task>& tasks) {
  if (tasks.empty() || !is_plain(tasks.back())) return {};
  const size_t last = tasks.size() - 1;
  for (size_t at = last; at-- > 0 && last - at <= kMostPassed + 1;) {
    if (merge(tasks[at], tasks[last])) {
      tasks.pop_back();
      return at;
    }
    if (!passes(tasks[last], tasks[at])) return {};
  }
  return {};
}

}  // namespace npugraph::lower
