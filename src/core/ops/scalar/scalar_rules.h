// SPDX-License-Identifier: Apache-2.0
// Formulas of elementwise operators. Internal to ops/.
#pragma once

#include <optional>
#include <string_view>

#include "loop/builder.h"
#include "ops/row.h"
#include "ops/scalar.h"

namespace npugraph::ops {

// The type in which a formula computes, and the operands for which it is defined.
enum class Domain : uint8_t {
  kNone,       // of a row without a formula
  kFloat,      // real floats; integers when the result is a float
  kNumber,     // real floats and integers
  kBits,       // integers and bool
  kCompare,    // two numbers or bools of their common type; gives bool
  kTruth,      // each operand as `operand != 0`; gives bool
  kPredicate,  // one real float, of its own type; gives bool
  kSame,       // any real type: operands convert to the type of the result
};

// The arguments of one call, in the type in which the formula computes.
class ScalarArgs {
 public:
  ScalarArgs(const Call& call, Numbers numbers, const ScalarSource& source, DType common, DType compute, DType result)
      : call_(call), numbers_(numbers), source_(source), common_(common), compute_(compute), result_(result) {}

  loop::Value operator[](size_t arg) const;  // tensor or number
  loop::Value as(size_t arg, DType dtype) const;
  loop::Value number(std::string_view name) const { return (*this)[place(name)]; }
  loop::Value number(std::string_view name, DType dtype) const { return as(place(name), dtype); }
  std::optional<double> known(size_t arg) const;              // the value of a constant number
  bool is_number(std::string_view name, double value) const;  // a constant that enters the formula with this value
  bool has(size_t arg) const { return !call_.is_none(arg); }
  std::string_view text(size_t arg) const;  // "" if it is no string
  loop::Value constant(double value) const { return constant(compute_, value); }
  loop::Value constant(DType dtype, double value) const { return source_.builder.constant(dtype, value); }
  DType type_of(size_t arg) const { return call_.tensor(arg)->dtype; }  // requires a tensor
  DType common_type() const { return common_; }
  DType result_type() const { return result_; }
  bool is_float() const { return is_floating(compute_); }

 private:
  size_t place(std::string_view name) const;
  bool is_rounded(size_t arg) const;

  const Call& call_;
  const Numbers numbers_;
  const ScalarSource& source_;
  const DType common_;
  const DType compute_;
  const DType result_;
};

}  // namespace npugraph::ops
