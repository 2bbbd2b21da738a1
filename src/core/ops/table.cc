// SPDX-License-Identifier: Apache-2.0
#include "ops/table.h"

#include <algorithm>
#include <deque>
#include <iterator>
#include <mutex>
#include <string>
#include <unordered_map>

#include "base/error.h"
#include "ops/handle.h"
#include "ops/node_facts.h"
#include "ops/row.h"
#include "ops/scalar/formulas.h"
#include "ops/shapes/shapes.h"
#include "ops/views/views.h"

namespace npugraph::ops {
namespace {

using enum ir::Trait;
using enum Domain;
using enum KernelTypes;
using enum Numbers;

// One row for each operator: schema (torch 2.13's own text), traits beyond those of the schema, in-place twin, shape
// and dtype rule or view rule.
constexpr Row kRows[] = {
// clang-format off
#include "ops/rows/pointwise_unary.inc"
#include "ops/rows/pointwise_binary.inc"
#include "ops/rows/view.inc"
#include "ops/rows/reduction.inc"
#include "ops/rows/product.inc"
#include "ops/rows/foreign.inc"
#include "ops/rows/pooling.inc"
#include "ops/rows/index.inc"
#include "ops/rows/layout.inc"
#include "ops/rows/creation.inc"
#include "ops/rows/effect.inc"
    // clang-format on
};

constexpr bool states_numbers(const Row& row) {
  const std::string_view schema = row.schema;
  const auto has = [&](std::string_view part) { return schema.find(part) != std::string_view::npos; };
  const bool takes_numbers = has("Scalar ") || has("Scalar? ") || has("Tensor other");
  const bool computes = row.scalar.domain == kFloat || row.scalar.domain == kNumber || row.scalar.domain == kCompare;
  return !takes_numbers || !computes || row.numbers != kUnstated;
}
static_assert(std::ranges::all_of(kRows, states_numbers), "a formula with numbers does not say how they enter it");

std::string name_of_schema(std::string_view schema) {
  std::string name(schema.substr(0, schema.find('(')));
  if (const size_t colons = name.find("::"); colons != std::string::npos) name.replace(colons, 2, ".");
  return name;
}

struct NameHash {
  using is_transparent = void;
  size_t operator()(std::string_view name) const { return std::hash<std::string_view>()(name); }
};

class Registry final : public ir::OpResolver {
 public:
  Registry() {
    by_name_.reserve(2 * std::size(kRows));
    for (const Row& row : kRows) by_name_[name_of_schema(row.schema)].row = &row;
  }

  const ir::Op* find(std::string_view name) const override {
    if (name.ends_with(".default")) name.remove_suffix(8);
    const std::lock_guard lock(mutex_);
    const auto entry = by_name_.find(name);
    return entry == by_name_.end() ? nullptr : resolve(entry->second);
  }

  std::optional<ir::Inferred> infer(const ir::Graph& graph, const ir::Node& node) const override {
    return infer_results(graph, node);
  }

  const ir::Op* intern(std::string_view schema, ir::Traits extra) override {
    std::string name = name_of_schema(schema);
    if (name.ends_with(".default")) name.resize(name.size() - 8);
    const std::lock_guard lock(mutex_);
    const auto known = by_name_.find(name);
    if (known != by_name_.end()) {
      if (const ir::Op* op = find_equal(known->second, schema, extra)) return op;
    }
    ir::Schema parsed = parse_schema(schema);
    ir::Op& op = ops_.emplace_back();
    op.name = parsed.name;
    op.traits = traits_of(parsed) | extra | kMayThrow;
    op.schema = std::move(parsed);
    by_name_[op.name].interned.push_back(&op);
    return &op;
  }

 private:
  struct Entry {
    const Row* row = nullptr;
    mutable const ir::Op* op = nullptr;  // of `row`, made on first use: most programs use few rows
    std::vector<const ir::Op*> interned;
  };

  // The row with this schema, or the operator interned before from it with these traits; null if there is neither.
  const ir::Op* find_equal(const Entry& entry, std::string_view schema, ir::Traits extra) const {
    if (entry.row != nullptr && schema == entry.row->schema) return resolve(entry);
    for (const ir::Op* op : entry.interned) {
      if (op->schema.text == schema && op->traits == (traits_of(op->schema) | extra | kMayThrow)) return op;
    }
    return nullptr;
  }

  const ir::Op* resolve(const Entry& entry) const {
    if (entry.row == nullptr) return entry.interned.empty() ? nullptr : entry.interned.back();
    if (entry.op == nullptr) {
      ir::Op& op = ops_.emplace_back();
      op.schema = parse_schema(entry.row->schema);
      op.name = op.schema.name;
      // A schema cannot tell a view from an operator that sometimes returns its argument (contiguous): the row does.
      op.traits = entry.row->traits.bits | (traits_of(op.schema) & ~static_cast<ir::Traits>(kView));
      if (entry.row->inplace_twin != nullptr) op.inplace_twin = entry.row->inplace_twin;
      op.id = static_cast<int32_t>(entry.row - kRows);
      entry.op = &op;
    }
    return entry.op;
  }

  mutable std::mutex mutex_;
  mutable std::deque<ir::Op> ops_;  // stable addresses
  std::unordered_map<std::string, Entry, NameHash, std::equal_to<>> by_name_;
};

}  // namespace

ir::OpResolver& registry() {
  static Registry& instance = *new Registry;  // lives as long as the process: graphs refer to its rows
  return instance;
}

const ir::Op& require(std::string_view name) {
  const ir::Op* op = registry().find(name);
  if (op == nullptr)
    throw UserError(cat("unknown operator '", name, "': it is neither in the operator table nor declared"));
  return *op;
}

const Row* row_of(const ir::Op& op) { return op.in_table() ? &kRows[op.id] : nullptr; }

const ir::Op* functional_form(const ir::Op& op) {
  static const auto forms = [] {
    std::unordered_map<std::string_view, int32_t> by_twin;
    for (const Row& row : kRows) {
      if (row.inplace_twin != nullptr) by_twin.emplace(row.inplace_twin, static_cast<int32_t>(&row - kRows));
    }
    return by_twin;
  }();
  const auto found = op.in_table() && op.is(ir::Trait::kMutates) ? forms.find(op.name) : forms.end();
  return found == forms.end() ? nullptr : &operator_of(found->second);
}

const SmallKernel* small_kernel(const ir::Op& op) {
  const auto kernel_of = [](const ir::Op& of) {
    const Row* row = row_of(of);
    return row == nullptr || row->kernel.name.empty() ? nullptr : &row->kernel;
  };
  const SmallKernel* own = kernel_of(op);
  const ir::Op* functional = own == nullptr ? functional_form(op) : nullptr;
  return functional == nullptr ? own : kernel_of(*functional);
}

const ir::Op& operator_of(int32_t id) { return require(name_of_schema(kRows[id].schema)); }

std::vector<std::string_view> table_names() {
  std::vector<std::string_view> names;
  for (const Row& row : kRows) names.push_back(registry().find(name_of_schema(row.schema))->name);
  return names;
}

}  // namespace npugraph::ops
