// SPDX-License-Identifier: Apache-2.0
// Selection of the weights that dropout keeps. A mask is a function of a key and the number of an element, so that a
// gradient can compute it again.
#pragma once

#include <utility>

#include "device/npu_ops/framework/checks.h"

namespace npugraph::npu_ops {

// Calls name the key of a mask by two numbers, seed and offset. Offset 0 stands for the first number that torch's
// generator draws after manual_seed(seed).
struct DropoutSeed {
  Tensor key, seed, offset;                    // [1] each; undefined where nothing is dropped by a key
  int64_t seed_number = 0, offset_number = 0;  // 0 where they are not known, as in graphs
};
DropoutSeed dropout_seed(int64_t seed, int64_t offset, const Tensor& like);
DropoutSeed dropout_seed(const Tensor& seed, const OptionalTensor& offset);
// Draws the key from the generator of the device of `like`. The seed is that of the generator.
DropoutSeed draw_dropout_seed(const Tensor& like);
// A seed or offset as a tensor on the device of `like`.
Tensor one_number(int64_t number, const Tensor& like);

class Dropout {
 public:
  Dropout() = default;  // keeps all
  Dropout(const char* op, double keep_prob);

  void set_key(Tensor key) { key_ = std::move(key); }
  // `mask` has one element for each weight, not 0 if the weight is kept; or one bit for each, the
  // first in the lowest bit.
  void set_mask(const char* op, const Tensor& mask, const c10::SymInt& weights);

  bool keeps_all() const { return keep_prob_ == 1; }
  double keep_prob() const { return keep_prob_; }
  // Which weights from number `first` on are kept: bool, of shape `sizes`. Undefined if all are kept.
  Tensor kept(const c10::SymInt& first, c10::SymIntArrayRef sizes, const Tensor& like) const;

 private:
  double keep_prob_ = 1;
  Tensor key_, mask_;
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
