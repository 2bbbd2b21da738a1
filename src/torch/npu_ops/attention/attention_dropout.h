// SPDX-License-Identifier: Apache-2.0
// Which weights dropout keeps. A mask is a function of two numbers, seed and offset, and of the number of an element, so that
// a gradient can make it again.
#pragma once

#include "torch/npu_ops/framework/checks.h"

namespace npugraph::npu_ops {

// In a graph the values of tensors are not known.
bool has_values(const Tensor& tensor);

// A seed of torch's generator, [1].
Tensor draw_seed(const Tensor& like);

class Dropout {
 public:
  Dropout() = default;  // keeps all
  Dropout(const char* op, double keep_prob);

  void set_seed(Tensor seed, int64_t offset);
  // `mask`: of as many elements as there are weights, not 0 where one is kept; or these as bits, the first in the lowest bit.
  void set_mask(const char* op, const Tensor& mask, const c10::SymInt& weights);

  bool keeps_all() const { return keep_prob_ == 1; }
  double keep_prob() const { return keep_prob_; }
  // bool, of these sizes, for weights from number `first`. Undefined where all are kept.
  Tensor kept(const c10::SymInt& first, c10::SymIntArrayRef sizes, const Tensor& like) const;

 private:
  double keep_prob_ = 1;
  Tensor seed_, mask_;
  int64_t offset_ = 0;
};

// One bit for each element of `kept`, the first in the lowest bit of the first byte, in bytes that are a multiple of 16.
Tensor as_bits(const Tensor& kept);
// The inverse: the first `count` of them, as bool.
Tensor from_bits(const Tensor& bits, const c10::SymInt& count);

// `x` with elements that torch's generator draws set to 0, the others divided by keep_prob; and bits that are 1 where one is
// kept.
struct Dropped {
  Tensor result, bits;
};
Dropped drop(const Tensor& x, double keep_prob);
// The same as `bits` say, of which no use is made where all are kept.
Tensor drop_again(const Tensor& x, const Tensor& bits, double keep_prob);

}  // namespace npugraph::npu_ops
