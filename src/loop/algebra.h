// SPDX-License-Identifier: Apache-2.0
// Rules of single operators that keep every bit (but those of NaNs).
#pragma once

#include <functional>
#include <optional>

#include "loop/kernel.h"

namespace npugraph::loop {

// What the rules may look at: the definition of a value if it is a Let that is visible here, else null; and types.
struct Definitions {
  std::function<const Let*(ValueId)> find;
  const std::vector<DType>* dtypes;
};

// The operand that `let` equals, if it equals one.
std::optional<ValueId> find_same(const Let& let, const Definitions& definitions);

// The same value by an operator of less work: a constant, a cast without its detour, operands in order of their numbers.
// True if `let` changed.
bool reduce_work(Let& let, const Definitions& definitions);

// For a division by a power of two: its reciprocal, with which a product gives the same bits.
std::optional<Scalar> exact_reciprocal(const Let& let, const Definitions& definitions);

// Whether every value of `from` is one of `to`.
bool is_exact_cast(DType from, DType to);

}  // namespace npugraph::loop
