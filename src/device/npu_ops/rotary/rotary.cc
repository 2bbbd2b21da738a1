// SPDX-License-Identifier: Apache-2.0
// Rotary position embeddings, computed in float32.
#include <tuple>

#include "device/npu_ops/families.h"
#include "device/npu_ops/rotary/rotations.h"

namespace npugraph::npu_ops {
namespace {

Rotation half_or_pairs(const char* op, c10::string_view mode) {
  TORCH_CHECK(mode == "half" || mode == "interleave", op, ": rotary_mode is '", mode,
              "', allowed are 'half' and 'interleave'");
  return rotation_of(op, mode);
}

Tensor rotary_mul(const Tensor& input, const Tensor& r1, const Tensor& r2, c10::string_view rotary_mode,
                  const OptionalTensor& rotate) {
  const char* op = "npu_rotary_mul";
  check_floating(op, "input", input);
  const Rotation rotation = half_or_pairs(op, rotary_mode);
  if (!rotate || !rotate->defined()) return rotated(input, r1, r2, rotation).to(input.scalar_type());
  const Tensor exact = wide(input);
  return (exact * wide(r1) + exact.matmul(wide(*rotate)) * wide(r2)).to(input.scalar_type());
}

std::tuple<Tensor, Tensor, Tensor> rotary_mul_backward(const Tensor& grad, const Tensor& input, const Tensor& r1,
                                                       const Tensor& r2, c10::string_view rotary_mode) {
  const char* op = "npu_rotary_mul_backward";
  check_same_shape(op, "grad", grad, "input", input);
  const Rotation rotation = half_or_pairs(op, rotary_mode);
  const Tensor exact = wide(grad);
  // The transpose of a turn by a right angle is the turn with the opposite sign.
  const Tensor dx = exact * wide(r1) - turned(exact * wide(r2), rotation);
  const Tensor dr1 = (exact * wide(input)).sum_to_size_symint(r1.sym_sizes());
  const Tensor dr2 = (exact * turned(wide(input), rotation)).sum_to_size_symint(r2.sym_sizes());
  return {dx.to(input.scalar_type()), dr1.to(r1.scalar_type()), dr2.to(r2.scalar_type())};
}

std::tuple<Tensor, Tensor> apply_rotary_pos_emb(const Tensor& query, const Tensor& key, const Tensor& cos,
                                                const Tensor& sin, c10::string_view layout,
                                                c10::string_view rotary_mode) {
  const char* op = "npu_apply_rotary_pos_emb";
  const int64_t dims = layout == "TND" ? 3 : 4;
  TORCH_CHECK(dims == 3 || layout == "BSND" || layout == "SBND" || layout == "BNSD", op, ": layout is '", layout,
              "', allowed are 'BSND', 'SBND', 'BNSD' and 'TND'");
  check_dims(op, "query", query, dims, dims);
  check_dims(op, "key", key, dims, dims);
  const Rotation rotation = rotation_of(op, rotary_mode);
  const Tensor q = rotated(query, cos, sin, rotation).to(query.scalar_type());
  const Tensor k = rotated(key, cos, sin, rotation).to(key.scalar_type());
  query.copy_(q);
  key.copy_(k);
  return {q, k};
}

Tensor interleave_rope(const Tensor& x, const Tensor& cos, const Tensor& sin) {
  check_floating("npu_interleave_rope", "x", x);
  check_dims("npu_interleave_rope", "x", x, 4, 4);
  return rotated(evens_first(x), cos, sin, Rotation::kHalf).to(x.scalar_type());
}

// Combines the angles of all rows of positions into one row, of which row r gives section[r] places: first those of row
// 0, then those of row 1, and so on. Interleaved, the rows take turns until their sections are used up.
Tensor sections_of(const Tensor& angles, at::IntArrayRef section, bool interleaved) {
  if (interleaved) {
    const Tensor place = at::arange(angles.sym_size(-1), angles.options().dtype(at::kLong));
    const auto rows = static_cast<int64_t>(section.size());
    Tensor out = angles.select(0, 0);
    for (int64_t row = 1; row < rows; ++row) {
      const Tensor taken = (place.remainder(rows) == row).logical_and(place < rows * section[static_cast<size_t>(row)]);
      out = at::where(taken, angles.select(0, row), out);
    }
    return out;
  }
  std::vector<Tensor> parts;
  int64_t start = 0;
  for (size_t row = 0; row < section.size(); ++row) {
    parts.push_back(angles.select(0, static_cast<int64_t>(row)).narrow(-1, start, section[row]));
    start += section[row];
  }
  return at::cat(parts, -1);
}

void check_sections(const char* op, const Tensor& positions, at::OptionalIntArrayRef section) {
  check_dims(op, "positions", positions, 1, 2);
  if (positions.dim() == 1) return;
  TORCH_CHECK(section && positions.sym_size(0) == static_cast<int64_t>(section->size()), op, ": positions has ",
              positions.sym_size(0), " rows, and mrope_section ", section ? section->size() : 0, " entries");
}

std::tuple<Tensor, Tensor> mrope(const Tensor& positions, const Tensor& query, const Tensor& key,
                                 const Tensor& cos_sin_cache, int64_t head_size, at::OptionalIntArrayRef mrope_section,
                                 std::optional<c10::string_view> rotary_mode,
                                 std::optional<c10::string_view> cache_mode) {
  const char* op = "npu_mrope";
  check_sections(op, positions, mrope_section);
  check_dims(op, "cos_sin_cache", cos_sin_cache, 2, 2);
  const Rotation rotation = half_or_pairs(op, rotary_mode.value_or("half"));
  const c10::string_view order = cache_mode.value_or("default");
  TORCH_CHECK(order == "default" || order == "interleave", op, ": cache_mode is '", order,
              "', allowed are 'default' and 'interleave'");
  auto angles = at::embedding(cos_sin_cache, positions).chunk(2, -1);
  if (positions.dim() == 2)
    for (Tensor& each : angles) each = sections_of(each, *mrope_section, order == "interleave");
  return {rotated_heads(query, head_size, angles[0], angles[1], rotation),
          rotated_heads(key, head_size, angles[0], angles[1], rotation)};
}

}  // namespace

void define_rotary(OperatorLibrary& library) {
  library.add({
      .schema = "npu::npu_rotary_mul(Tensor input, Tensor r1, Tensor r2, str rotary_mode='half', Tensor? rotate=None) "
                "-> Tensor",
      .kernel = parts(&rotary_mul),
      .definition = "Rotary position embedding (Su et al., RoFormer, 2021): input * r1 + turn(input) * r2, where r1 "
                    "has the cosines, r2 has the sines, and both broadcast against input, [..., D]. With rotary_mode "
                    "half, elements i and i + D / 2 are rotated together: turn(x) = cat(-x[..., D / 2:], x[..., :D / "
                    "2]). With interleave, elements 2i and 2i + 1 are rotated together: turn(x) has -x[..., 2i + 1] "
                    "and x[..., 2i] in their places. If the matrix rotate, [D, D], is given, turn(x) = x @ rotate. "
                    "The result has the shape and type of input.",
  });
  library.add({
      .schema = "npu::npu_rotary_mul_backward(Tensor grad, Tensor input, Tensor r1, Tensor r2, str rotary_mode='half') "
                "-> (Tensor, Tensor, Tensor)",
      .kernel = parts(&rotary_mul_backward),
      .definition = "Gradients of npu_rotary_mul without rotate, for input, r1 and r2, in their shapes and types, "
                    "where grad is the gradient of its result.",
  });
  library.add({
      .schema = "npu::npu_apply_rotary_pos_emb(Tensor query, Tensor key, Tensor cos, Tensor sin, str layout='BSND', "
                "str rotary_mode='half') -> (Tensor, Tensor)",
      .kernel = composite(&apply_rotary_pos_emb),
      .definition = "npu_rotary_mul of query and of key with the same cosines and sines. Both results are new tensors "
                    "and are also written into query and key in place. rotary_mode is half, interleave or quarter, "
                    "which applies half to each half of the last dimension. query and key have 4 dimensions in the "
                    "layouts BSND, SBND and BNSD and 3 in TND; cos and sin broadcast against them.",
  });
  library.add({
      .schema = "npu::npu_interleave_rope(Tensor x, Tensor cos, Tensor sin) -> Tensor",
      .kernel = parts(&interleave_rope),
      .definition = "Rotary position embedding of elements 2i and 2i + 1 of the last dimension, with a result in "
                    "halves (DeepSeek-V2, 2024): npu_rotary_mul, in the mode half, of x with its even elements before "
                    "its odd ones. x is [B, N, S, D], and cos and sin broadcast against it. The result has the shape "
                    "and type of x.",
  });
  library.add({
      .schema = "npu::npu_mrope(Tensor positions, Tensor query, Tensor key, Tensor cos_sin_cache, int head_size, *, "
                "int[]? mrope_section=None, str? rotary_mode='half', str? cache_mode='default') -> (Tensor, Tensor)",
      .kernel = parts(&mrope),
      .definition = "Rotary position embedding of query and key with angles from a cache, also multimodal. query and "
                    "key are [T, N * head_size]. A row of cos_sin_cache, [positions, rotary_dim], has the cosines and "
                    "then the sines of one position, and the first rotary_dim elements of each head are rotated, in "
                    "the rotary_mode of npu_rotary_mul. positions is [T], or [rows, T] for multimodal positions. Then "
                    "mrope_section[r] of the rotary_dim / 2 angles of a token come from row r: in consecutive "
                    "sections (Qwen2-VL, 2024), or with cache_mode interleave in turn, angle i from row i % rows, "
                    "until the section of that row is used up, and then from row 0 (Qwen3-VL, 2025). Results: query "
                    "and key as new tensors of their shapes and types.",
  });
}

}  // namespace npugraph::npu_ops
