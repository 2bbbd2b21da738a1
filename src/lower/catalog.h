// SPDX-License-Identifier: Apache-2.0
// What lowering asks about the operators of the host at hand. The torch side answers from its dispatcher; without torch there
// is no catalog and every ATen node is refused with its name.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ir/op.h"
#include "loop/int4.h"

namespace npugraph::lower {

// The variant of a functional operator that writes into memory that it is given.
struct OutVariant {
  std::string name;    // "aten.mm.out"
  std::string schema;  // its schema text
  // Index in the out-variant's schema of the argument that takes result i of the functional operator.
  std::vector<int32_t> out_args;
};

class OperatorCatalog {
 public:
  virtual ~OperatorCatalog() = default;
  // Nothing unless a CPU kernel writes straight into the memory: a variant that computes and then copies does not count.
  virtual std::optional<OutVariant> out_variant(const ir::Op& op) const = 0;
  // Whether the host can run the operator at all as an ATen task.
  virtual bool can_run(const ir::Op& op) const = 0;
  // How the host's operators expect weights of 4 bits; nothing where it is none of the ways that are known.
  virtual std::optional<loop::Int4Packing> int4_packing() const { return std::nullopt; }
};

}  // namespace npugraph::lower
