// SPDX-License-Identifier: Apache-2.0
// View rules of the table: where each result lies in the first argument. A rule returns nothing when symbols leave the
// answer open. Internal to ops/.
#pragma once

#include <utility>
#include <vector>

#include "ops/row.h"

namespace npugraph::ops::views {

// `result` alone.
inline Views one(ViewResult result) { return std::vector<ViewResult>{std::move(result)}; }

Views view(const Call& call);
Views view_as(const Call& call);
Views reshape_alias(const Call& call);
Views alias(const Call& call);
Views t(const Call& call);
Views transpose(const Call& call);
Views transpose_last(const Call& call);
Views reverse_dims(const Call& call);
Views permute(const Call& call);
Views movedim(const Call& call);
Views expand(const Call& call);
Views expand_as(const Call& call);
Views slice(const Call& call);
Views select(const Call& call);
Views narrow(const Call& call);
Views unsqueeze(const Call& call);
Views squeeze(const Call& call);
Views squeeze_dim(const Call& call);
Views squeeze_dims(const Call& call);
Views split(const Call& call);
Views split_with_sizes(const Call& call);
Views chunk(const Call& call);
Views unbind(const Call& call);
Views diagonal(const Call& call);
Views unfold(const Call& call);
Views as_strided(const Call& call);
Views view_dtype(const Call& call);
Views real(const Call& call);
Views imag(const Call& call);
Views view_as_real(const Call& call);
Views view_as_complex(const Call& call);

// Element type of the results, which few views change.
std::optional<DType> result_dtype(ViewRule rule, const Call& call);

// The sizes that a reshape asks for, with -1 replaced by the size that it stands for; nullopt if symbols leave it open.
std::optional<std::vector<Expr>> reshape_sizes(const Call& call, const ir::TensorType& base, std::vector<Expr> sizes);

// Strides of `sizes` over the memory of `base`, as torch computes them; nullopt if a copy is or may be needed.
std::optional<std::vector<Expr>> reshape_strides(const ir::TensorType& base, const std::vector<Expr>& sizes);

}  // namespace npugraph::ops::views
