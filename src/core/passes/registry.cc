// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "base/error.h"
#include "passes/attention/bound_attention.h"
#include "passes/attention/drop_head_copies.h"
#include "passes/attention/fold_repeat_kv.h"
#include "passes/attention/fuse_attention.h"
#include "passes/memory/detach_creations.h"
#include "passes/memory/hoist_copies.h"
#include "passes/memory/merge_copies.h"
#include "passes/memory/recompute_parts.h"
#include "passes/memory/reinplace_inputs.h"
#include "passes/memory/reinplace_intermediates.h"
#include "passes/memory/remove_copies.h"
#include "passes/memory/sink_cat.h"
#include "passes/memory/straighten.h"
#include "passes/pass.h"
#include "passes/simplify/canonicalise.h"
#include "passes/simplify/cse.h"
#include "passes/simplify/dce.h"
#include "passes/simplify/expand_batch_norm.h"
#include "passes/simplify/expand_pointwise_convolutions.h"
#include "passes/simplify/fold_constants.h"
#include "passes/simplify/fold_conversions.h"
#include "passes/simplify/fold_dequantised.h"
#include "passes/simplify/fold_shifted_products.h"
#include "passes/simplify/remove_noops.h"

namespace npugraph::passes {

const std::vector<Pass>& all_passes() {
  static const std::vector<Pass> passes = {
      {"bound_attention", bound_attention, "replaces attention masks that compare positions by bounds on the positions",
       false},
      {"canonicalise", canonicalise, "rewrites equivalent operators to one form"},
      {"cse", cse, "computes equal values once"},
      {"dce", dce, "removes nodes without observable effect"},
      {"detach_creations", detach_creations, "creates constant tensors from sizes instead of from another tensor"},
      {"drop_head_copies", drop_head_copies, "removes copies of heads in front of attention and behind it", false},
      {"expand_batch_norm", expand_batch_norm,
       "computes batch normalisations as one factor and one summand for each channel", false},
      {"expand_batch_norm_training", expand_batch_norm_training,
       "takes batch normalisations in training, and their gradients, apart into elementwise operators and sums"},
      {"expand_pointwise_convolutions", expand_pointwise_convolutions,
       "replaces convolutions of single pixels in channels_last by products", false},
      {"fold_constants", fold_constants, "computes nodes that depend on no input at compile time"},
      {"fold_conversions", fold_conversions, "removes conversions that a product or quotient performs itself", false},
      {"fold_dequantised", fold_dequantised,
       "replaces products of dequantised weights by products of the quantised ones", false},
      {"fold_repeat_kv", fold_repeat_kv, "removes the repetition of grouped keys and values in front of attention",
       false},
      {"fold_shifted_products", fold_shifted_products,
       "replaces products of i8 that are written with u8 by products of i8", false},
      {"fuse_attention", fuse_attention, "replaces two products with a softmax between them by attention"},
      {"hoist_copies", hoist_copies, "writes mutated inputs as soon as their new value is computed", false},
      {"merge_copies", merge_copies, "replaces a copy of a rearranged copy by one copy of the source", false},
      {"recompute_parts", recompute_parts, "recomputes the parts of a concatenation instead of copying them", false},
      {"reinplace_inputs", reinplace_inputs, "updates mutated inputs in place"},
      {"reinplace_intermediates", reinplace_intermediates, "writes results over operands that are not read later"},
      {"remove_copies", remove_copies, "removes copies that are never distinguished from the original"},
      {"remove_noops", remove_noops, "removes operators that return their operand unchanged"},
      {"sink_cat", sink_cat, "moves elementwise operators from a concatenation to its parts", false},
      {"straighten", straighten, "computes chains of elementwise operators in the memory order of their readers",
       false},
  };
  return passes;
}

const Pass& find_pass(std::string_view name) {
  const auto& passes = all_passes();
  const auto found = std::find_if(passes.begin(), passes.end(), [&](const Pass& pass) { return pass.name == name; });
  if (found != passes.end()) return *found;
  std::string known;
  for (const Pass& pass : passes) known += cat(known.empty() ? "" : ", ", pass.name);
  throw UserError(cat("unknown pass '", name, "'; the passes are ", known));
}

std::vector<Pass> find_passes(const std::vector<std::string>& names) {
  std::vector<Pass> passes;
  for (const std::string& name : names) passes.push_back(find_pass(name));
  return passes;
}

}  // namespace npugraph::passes
