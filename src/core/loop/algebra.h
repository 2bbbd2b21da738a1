// SPDX-License-Identifier: Apache-2.0
// Rewriting rules for single operators that keep every bit, except those of NaNs.
#pragma once

#include <functional>
#include <optional>

#include "loop/kernel.h"

namespace npugraph::loop {

// The input of the rules: `find` gives the definition of a value that is a Let visible here, else null.
struct Definitions {
  std::function<const Let*(ValueId)> find;
  const std::vector<DType>* dtypes;
};

// The operand that `let` equals, if it equals one.
std::optional<ValueId> find_same(const Let& let, const Definitions& definitions);

// Replaces the operator by one of less work for the same value: a constant, a cast without its detour, operands in
// order of their numbers. True if `let` changed.
bool reduce_work(Let& let, const Definitions& definitions);

// The reciprocal of the divisor of a division by a power of two: multiplying by it gives the same bits. Else nullopt.
std::optional<Scalar> exact_reciprocal(const Let& let, const Definitions& definitions);

// Whether every value of `from` is one of `to`.
bool is_exact_cast(DType from, DType to);

}  // namespace npugraph::loop
