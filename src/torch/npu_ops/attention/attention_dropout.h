// SPDX-License-Identifier: Apache-2.0
// Selection of the weights that dropout keeps. A mask is a function of seed, offset and the number of an element, so
// that a gradient can compute it again.
#pragma once

#include "torch/npu_ops/framework/checks.h"

namespace npugraph::npu_ops {

// Whether the values of `tensor` are known; in a graph they are not.
bool has_values(const Tensor& tensor);

// A seed from torch's generator, [1].
Tensor draw_seed(const Tensor& like);

class Dropout {
 public:
  Dropout() = default;  // keeps all
  Dropout(const char* op, double keep_prob);

  void set_seed(Tensor seed, int64_t offset);
  // `mask` has one element for each weight, not 0 if the weight is kept; or one bit for each, the
  // first in the lowest bit.
  void set_mask(const char* op, const Tensor& mask, const c10::SymInt& weights);

  bool keeps_all() const { return keep_prob_ == 1; }
  double keep_prob() const { return keep_prob_; }
  // Which weights from number `first` on are kept: bool, of shape `sizes`. Undefined if all are kept.
  Tensor kept(const c10::SymInt& first, c10::SymIntArrayRef sizes, const Tensor& like) const;

 private:
  double keep_prob_ = 1;
  Tensor seed_, mask_;
  int64_t offset_ = 0;
};

// One bit for each element of `kept`, the first in the lowest bit of the first byte, in bytes
// that are a multiple of 16.
Tensor as_bits(const Tensor& kept);
// The inverse: the first `count` bits as bool.
Tensor from_bits(const Tensor& bits, const c10::SymInt& count);

// Dropout of `x`: elements that torch's generator chooses are set to 0, the others divided by keep_prob. `bits` has a 1
// for each kept element.
struct Dropped {
  Tensor result, bits;
};
Dropped drop(const Tensor& x, double keep_prob);
// The same dropout again, by its `bits`, which are not read if all elements are kept.
Tensor drop_again(const Tensor& x, const Tensor& bits, double keep_prob);

}  // namespace npugraph::npu_ops
