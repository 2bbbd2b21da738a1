// SPDX-License-Identifier: Apache-2.0
#include "codegen/jit/build_rules.h"

namespace npugraph::codegen {
namespace {

thread_local BuildRules current;

}  // namespace

WithBuildRules::WithBuildRules(BuildRules rules) : before_(current) { current = rules; }
WithBuildRules::~WithBuildRules() { current = before_; }

const BuildRules& build_rules() { return current; }

}  // namespace npugraph::codegen
