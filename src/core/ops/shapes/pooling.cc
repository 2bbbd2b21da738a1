// SPDX-License-Identifier: Apache-2.0
#include "base/error.h"
#include "ops/shapes/shapes.h"

namespace npugraph::ops::shapes {
namespace {

// The argument `name` as one number for each of `count` spatial dimensions; a single number stands for all.
std::optional<std::vector<int64_t>> known_per_dim(const Call& call, std::string_view name, size_t count) {
  const auto arg = call.find(name);
  auto numbers = arg ? call.known_integers(*arg) : std::vector<int64_t>{1};
  if (numbers && numbers->size() == 1) numbers->resize(count, numbers->front());
  if (numbers && numbers->size() != count && !(numbers->empty() && name == "stride")) {
    throw UserError(npugraph::cat(call.op.name, ": ", name, " has ", numbers->size(), " numbers, not 1 or ", count));
  }
  return numbers;
}

// Number of windows of `span` elements, `stride` apart, that fit into `size` elements with `padding` on both sides. In
// ceil_mode the last one may extend past the end, but may not start in the padding there. Returns nullopt if that
// depends on a symbol.
std::optional<Expr> window_count(const Call& call, const Expr& size, int64_t span, int64_t stride, int64_t padding,
                                 bool ceil_mode) {
  const int64_t round = ceil_mode ? stride - 1 : 0;
  const Expr count = Expr::make(ExprOp::kFloorDiv, {size + (2 * padding - span + round), stride}) + 1;
  if (const auto known = size.as_int()) {
    const int64_t windows = *count.as_int();
    const bool starts_outside = ceil_mode && (windows - 1) * stride >= *known + padding;
    const int64_t fitting = windows - (starts_outside ? 1 : 0);
    if (fitting >= 1) return fitting;
    throw UserError(npugraph::cat(call.op.name, ": no window of ", span, " elements fits into size ", *known));
  }
  const bool may_start_outside = ceil_mode && padding + stride > span;
  return may_start_outside ? std::nullopt : std::optional(count);
}

void require_rank(const Call& call, const ir::TensorType& self, size_t spatial) {
  const size_t rank = self.sizes.size();
  if (rank == spatial + 1 || rank == spatial + 2) return;
  throw UserError(npugraph::cat(call.op.name, ": a tensor of rank ", rank, ", not ", spatial + 1, " or ", spatial + 2));
}

// Sizes of the first argument with its last `spatial` sizes replaced.
Sizes with_last_sizes(const Call& call, size_t spatial, const Sizes& replaced) {
  const auto* self = call.tensor(0);
  if (self == nullptr || !replaced) return std::nullopt;
  if (replaced->size() != spatial) {
    throw UserError(npugraph::cat(call.op.name, ": ", replaced->size(), " output sizes, not ", spatial));
  }
  require_rank(call, *self, spatial);
  std::vector<Expr> sizes(self->sizes.begin(), self->sizes.end() - static_cast<int64_t>(spatial));
  sizes.insert(sizes.end(), replaced->begin(), replaced->end());
  return sizes;
}

Sizes pooled_sizes(const Call& call, size_t spatial) {
  const auto* self = call.tensor(0);
  const auto kernel = known_per_dim(call, "kernel_size", spatial);
  auto stride = known_per_dim(call, "stride", spatial);
  const auto padding = known_per_dim(call, "padding", spatial);
  const auto dilation = known_per_dim(call, "dilation", spatial);
  const auto ceil_mode = call.boolean(*call.find("ceil_mode"));
  if (self == nullptr || !kernel || !stride || !padding || !dilation || !ceil_mode) return std::nullopt;
  require_rank(call, *self, spatial);
  if (stride->empty()) stride = kernel;
  std::vector<Expr> counts;
  for (size_t i = 0; i < spatial; ++i) {
    if ((*kernel)[i] < 1 || (*stride)[i] < 1 || (*dilation)[i] < 1) {
      throw UserError(npugraph::cat(call.op.name, ": kernel_size, stride and dilation must be positive"));
    }
    const Expr& size = self->sizes[self->sizes.size() - spatial + i];
    const int64_t span = (*dilation)[i] * ((*kernel)[i] - 1) + 1;
    auto count = window_count(call, size, span, (*stride)[i], (*padding)[i], *ceil_mode);
    if (!count) return std::nullopt;
    counts.push_back(std::move(*count));
  }
  return with_last_sizes(call, spatial, counts);
}

Sizes output_sizes(const Call& call, size_t spatial) {
  return with_last_sizes(call, spatial, call.integers(*call.find("output_size")));
}

// `type` with a dimension of size 1 before `dim`, as unsqueeze makes it.
ir::TensorType unsqueezed(ir::TensorType type, size_t dim) {
  const auto at = static_cast<int64_t>(dim);
  const Expr stride = dim == type.sizes.size() ? Expr(1) : type.sizes[dim] * type.strides[dim];
  type.sizes.insert(type.sizes.begin() + at, 1);
  type.strides.insert(type.strides.begin() + at, stride);
  return type;
}

// in_suggested_format for operators that insert a dimension before `dim`, compute in the format of that tensor, and
// remove the dimension again.
Types in_format_unsqueezed(const Call& call, const ir::TensorType& like, size_t dim, const std::vector<DType>& dtypes,
                           Sizes sizes) {
  if (!sizes) return std::nullopt;
  const auto at = static_cast<int64_t>(dim);
  sizes->insert(sizes->begin() + at, 1);
  auto types = in_suggested_format(call, unsqueezed(like, dim), dtypes, sizes);
  if (!types) return std::nullopt;
  for (ir::Type& type : *types) {
    auto& tensor = std::get<ir::TensorType>(type);
    tensor.sizes.erase(tensor.sizes.begin() + at);
    tensor.strides.erase(tensor.strides.begin() + at);
  }
  return types;
}

// Volumes without a batch are pooled as a batch of one.
Types in_format_of_volume(const Call& call, const ir::TensorType& like, const std::vector<DType>& dtypes, Sizes sizes) {
  if (like.sizes.size() == 4) return in_format_unsqueezed(call, like, 0, dtypes, std::move(sizes));
  return in_suggested_format(call, like, dtypes, sizes);
}

// Signals are pooled as images of height 1.
Types in_format_of_signal(const Call& call, const ir::TensorType& like, Sizes sizes) {
  return in_format_unsqueezed(call, like, like.sizes.size() - 1, {like.dtype}, std::move(sizes));
}

}  // namespace

Types max_pool2d(const Call& call) {
  const auto* self = call.tensor(0);
  if (self == nullptr) return std::nullopt;
  return in_suggested_format(call, *self, {self->dtype, DType::kI64}, pooled_sizes(call, 2));
}

Types max_pool3d(const Call& call) {
  const auto* self = call.tensor(0);
  if (self == nullptr) return std::nullopt;
  return in_format_of_volume(call, *self, {self->dtype, DType::kI64}, pooled_sizes(call, 3));
}

Types avg_pool1d(const Call& call) {
  const auto* self = call.tensor(0);
  return self == nullptr ? std::nullopt : in_format_of_signal(call, *self, pooled_sizes(call, 1));
}

Types avg_pool2d(const Call& call) {
  const auto* self = call.tensor(0);
  return self == nullptr ? std::nullopt : in_suggested_format(call, *self, {self->dtype}, pooled_sizes(call, 2));
}

Types avg_pool3d(const Call& call) {
  const auto* self = call.tensor(0);
  return self == nullptr ? std::nullopt : row_major(*self, {self->dtype}, pooled_sizes(call, 3));
}

Types adaptive_avg_pool1d(const Call& call) {
  const auto* self = call.tensor(0);
  return self == nullptr ? std::nullopt : in_format_of_signal(call, *self, output_sizes(call, 1));
}

Types to_output_size2d(const Call& call) {
  const auto* self = call.tensor(0);
  return self == nullptr ? std::nullopt : in_suggested_format(call, *self, {self->dtype}, output_sizes(call, 2));
}

Types to_output_size3d(const Call& call) {
  const auto* self = call.tensor(0);
  return self == nullptr ? std::nullopt : row_major(*self, {self->dtype}, output_sizes(call, 3));
}

Types adaptive_max_pool2d(const Call& call) {
  const auto* self = call.tensor(0);
  if (self == nullptr) return std::nullopt;
  return in_suggested_format(call, *self, {self->dtype, DType::kI64}, output_sizes(call, 2));
}

Types adaptive_max_pool3d(const Call& call) {
  const auto* self = call.tensor(0);
  if (self == nullptr) return std::nullopt;
  return row_major(*self, {self->dtype, DType::kI64}, output_sizes(call, 3));
}

Types fractional_max_pool2d(const Call& call) {
  const auto* self = call.tensor(0);
  if (self == nullptr) return std::nullopt;
  return row_major(*self, {self->dtype, DType::kI64}, output_sizes(call, 2));
}

Types pool_gradient(const Call& call) {
  const auto* input = call.tensor(1);
  return input == nullptr ? std::nullopt : in_suggested_format(call, *input, {input->dtype}, input->sizes);
}

Types max_pool3d_gradient(const Call& call) {
  const auto* input = call.tensor(1);
  return input == nullptr ? std::nullopt : in_format_of_volume(call, *input, {input->dtype}, input->sizes);
}

}  // namespace npugraph::ops::shapes
