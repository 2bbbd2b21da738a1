// SPDX-License-Identifier: Apache-2.0
#include "device/npu_ops/attention/attention_mask.h"

namespace npugraph::npu_ops {
namespace {

Tensor count(const Tensor& like, const c10::SymInt& n) {
  return at::arange(c10::Scalar(n), like.options().dtype(at::kLong));
}

// Column minus row, [rows, columns]. With `right`, the last row and the last column are at distance 0.
Tensor diagonal_distance(const Tensor& like, const c10::SymInt& rows, const c10::SymInt& columns, bool right) {
  const Tensor row = count(like, rows).unsqueeze(1);
  const Tensor out = count(like, columns) - row;
  return right ? out - c10::Scalar(columns - rows) : out;
}

Tensor outside_band(const MaskRule& rule, const Tensor& distance) {
  const bool before = rule.pre_tokens < kAllTokens, after = rule.next_tokens < kAllTokens;
  return either(before ? distance.lt(-rule.pre_tokens) : Tensor(), after ? distance.gt(rule.next_tokens) : Tensor());
}

}  // namespace

Tensor either(const Tensor& a, const Tensor& b) {
  if (!a.defined()) return b;
  return b.defined() ? a.logical_or(b) : a;
}

void check_rule(const char* op, const MaskRule& rule, int64_t last_mode) {
  TORCH_CHECK(rule.sparse_mode >= 0 && rule.sparse_mode <= last_mode, op, ": sparse_mode is ", rule.sparse_mode,
              ", allowed are 0 to ", last_mode);
}

MaskRule rule_of_sequence(MaskRule rule, int64_t index, int64_t count) {
  if (rule.sparse_mode == 7) rule.sparse_mode = index == count - 1 ? 4 : 3;
  if (rule.sparse_mode == 8) rule.sparse_mode = index == 0 ? 4 : 2;
  return rule;
}

bool is_causal(const MaskRule& rule, const c10::SymInt& rows, const c10::SymInt& columns) {
  return rule.sparse_mode == 2 || (rule.sparse_mode == 3 && rows == columns);
}

Tensor dropped_by(const char* op, const MaskRule& rule, const Tensor& mask, const Tensor& like, const c10::SymInt& rows,
                  const c10::SymInt& columns) {
  const Tensor given = mask.defined() ? mask.to(at::kBool) : mask;
  const auto from_diagonal = [&](bool right) { return diagonal_distance(like, rows, columns, right); };
  switch (rule.sparse_mode) {
    case 0:
      if (!given.defined() || (rule.pre_tokens >= kAllTokens && rule.next_tokens >= kAllTokens)) return given;
      return either(given, outside_band(rule, from_diagonal(false)));
    case 1: TORCH_CHECK(given.defined(), op, ": sparse_mode 1 needs atten_mask"); return given;
    case 2: return from_diagonal(false).gt(0);
    case 3: return from_diagonal(true).gt(0);
    case 4: return outside_band(rule, from_diagonal(true));
    default: return from_diagonal(true).gt(0).logical_and(count(like, columns).ge(rule.prefix));
  }
}

Tensor with_four_dims(const Tensor& given, const c10::SymInt& rows) {
  if (!given.defined() || given.dim() == 4) return given;
  if (given.dim() == 3) return given.unsqueeze(1);
  // [rows, columns], or [batches, columns] where each batch has one row.
  return given.dim() == 2 && rows == 1 && given.sym_size(0) != 1 ? given.unsqueeze(1).unsqueeze(1)
                                                                 : given.expand_symint({1, 1, given.sym_size(-2), -1});
}

Tensor part_of_sequence(const Tensor& given, int64_t batch, int64_t rows, int64_t columns) {
  if (!given.defined()) return given;
  const bool shared = given.sym_size(0) == 1;
  const Tensor one = given.narrow(0, shared ? 0 : batch, 1).narrow(-1, 0, columns);
  return one.sym_size(-2) == 1 ? one : one.narrow(-2, 0, rows);
}

Tensor first_of_mask(const char* op, const char* name, const Tensor& mask, int64_t index, const c10::SymInt& rows,
                     const c10::SymInt& columns) {
  if (!mask.defined()) return mask;
  check_dims(op, name, mask, 2, 4);
  TORCH_CHECK(mask.sym_size(-2) >= rows && mask.sym_size(-1) >= columns, op, ": ", name, " has shape ",
              mask.sym_sizes(), ", and a sequence has ", rows, " rows and ", columns, " columns");
  const Tensor all = mask.dim() == 2 ? mask.unsqueeze(0).unsqueeze(0) : mask.dim() == 3 ? mask.unsqueeze(1) : mask;
  const Tensor own = index < 0 || all.sym_size(0) == 1 ? all : all.narrow(0, index, 1);
  return own.narrow_symint(-2, 0, rows).narrow_symint(-1, 0, columns).to(at::kBool);
}

}  // namespace npugraph::npu_ops
