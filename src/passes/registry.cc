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
#include "passes/simplify/fold_constants.h"
#include "passes/simplify/fold_conversions.h"
#include "passes/simplify/fold_dequantised.h"
#include "passes/simplify/remove_noops.h"

namespace npugraph::passes {

const std::vector<Pass>& all_passes() {
  static const std::vector<Pass> passes = {
      {"bound_attention", bound_attention, "tells attention from positions which keys a query sees", false},
      {"canonicalise", canonicalise, "gives what means the same one spelling"},
      {"cse", cse, "computes equal things once"},
      {"dce", dce, "removes what nobody can notice"},
      {"detach_creations", detach_creations, "lets tensors of one number read nothing"},
      {"drop_head_copies", drop_head_copies, "lets attention read heads where products leave them", false},
      {"expand_batch_norm", expand_batch_norm, "computes factors and summands of channels for batch normalisations",
       false},
      {"fold_constants", fold_constants, "computes at compile time what does not depend on the inputs"},
      {"fold_conversions", fold_conversions, "lets products and quotients convert their operands themselves", false},
      {"fold_dequantised", fold_dequantised, "lets products read the codes of weights that are dequantised for them",
       false},
      {"fold_repeat_kv", fold_repeat_kv, "lets attention read grouped keys and values as they are", false},
      {"fuse_attention", fuse_attention, "puts attention in the place of products with a softmax between them"},
      {"hoist_copies", hoist_copies, "writes mutated inputs as soon as their new value is there", false},
      {"merge_copies", merge_copies, "lets copies of rearranged copies read the first source", false},
      {"recompute_parts", recompute_parts, "computes again what a concatenation would copy", false},
      {"reinplace_inputs", reinplace_inputs, "gives mutated inputs back their in-place operators"},
      {"reinplace_intermediates", reinplace_intermediates, "lets operators write into operands that die with them"},
      {"remove_copies", remove_copies, "removes copies that nobody can tell from the original"},
      {"remove_noops", remove_noops, "removes operators that compute what an operand is already"},
      {"sink_cat", sink_cat, "computes in the parts of a concatenation what would be computed of the whole", false},
      {"straighten", straighten, "keeps rows in order in chains of elementwise operators that are read so", false},
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
