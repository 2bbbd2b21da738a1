// SPDX-License-Identifier: Apache-2.0
// Lowering's questions about the operators of the host. The torch side answers from its dispatcher, tools and tests
// without torch from a text (tools/text_catalog.h).
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
  // Element i: index in the out-variant's schema of the argument that takes result i of the functional operator.
  std::vector<int32_t> out_args;
  bool any_strides = true;  // writes results of any strides; otherwise only of those of dense row-major tensors
};

class OperatorCatalog {
 public:
  virtual ~OperatorCatalog() = default;
  // Returns nullopt unless a CPU kernel writes straight into the memory: a variant that computes and then copies
  // does not count.
  virtual std::optional<OutVariant> out_variant(const ir::Op& op) const = 0;
  // Whether the host can run the operator at all as an ATen task.
  virtual bool can_run(const ir::Op& op) const = 0;
  // How the host's operators expect weights of 4 bits to be packed; nullopt if the packing is unknown.
  virtual std::optional<loop::Int4Packing> int4_packing() const { return std::nullopt; }
};

}  // namespace npugraph::lower
