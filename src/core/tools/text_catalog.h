// SPDX-License-Identifier: Apache-2.0
// An OperatorCatalog from text, for tools and tests without torch. Each line states one fact, and '#' begins a comment:
//   out aten.exp aten::exp.out(Tensor self, *, Tensor(a!) out) -> Tensor(a!)   aten.exp has this variant with out
//   arguments
//   rows aten.tril aten::tril.out(Tensor self, ...) -> Tensor(a!)               likewise, for row-major results alone
//   refuse aten.topk                                                            the host cannot run the operator
//   int4 64 halves                                                              the order of weights of 4 bits
//   (loop/int4.h)
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "lower/catalog.h"

namespace npugraph::tools {

class TextCatalog final : public lower::OperatorCatalog {
 public:
  // A host that runs every operator and has no variants with out arguments.
  TextCatalog() = default;
  // UserError that names `source` and the line for text of another form.
  TextCatalog(std::string_view text, std::string_view source);

  std::optional<lower::OutVariant> out_variant(const ir::Op& op) const override;
  bool can_run(const ir::Op& op) const override { return !refused_.contains(op.name); }
  std::optional<loop::Int4Packing> int4_packing() const override { return int4_; }

 private:
  void read_line(std::string_view line);

  std::map<std::string, lower::OutVariant, std::less<>> variants_;  // by operator
  std::set<std::string, std::less<>> refused_;
  std::optional<loop::Int4Packing> int4_;
};

}  // namespace npugraph::tools
