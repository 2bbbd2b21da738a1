// SPDX-License-Identifier: Apache-2.0
// Operators that read and write elements by their positions.
#include <bit>
#include <vector>

#include "device/npu_ops/families.h"
#include "device/npu_ops/framework/checks.h"
#include "device/npu_ops/parts/parts.h"

namespace npugraph::npu_ops {
namespace {

using c10::SymInt;

// Bit i of a mask says whether it applies to entry i of begin, end and strides.
struct Spec {
  at::IntArrayRef begin, end, strides;
  int64_t begin_mask, end_mask, ellipsis_mask, new_axis_mask, shrink_axis_mask;
};

bool has(int64_t mask, size_t entry) { return (mask >> entry & 1) != 0; }

void check_spec(const Spec& spec, const Tensor& input) {
  constexpr const char* kOp = "npu_indexing";
  const size_t entries = spec.begin.size();
  TORCH_CHECK(spec.end.size() == entries && spec.strides.size() == entries, kOp, ": begin, end and strides have ",
              entries, ", ", spec.end.size(), " and ", spec.strides.size(), " elements, and not the same number");
  TORCH_CHECK(std::popcount(static_cast<uint64_t>(spec.ellipsis_mask)) <= 1, kOp, ": ellipsis_mask is ",
              spec.ellipsis_mask, ", allowed is one bit at most");
  int64_t dims = 0;
  for (size_t i = 0; i < entries; ++i) {
    TORCH_CHECK(spec.strides[i] != 0, kOp, ": strides has a 0");
    if (!has(spec.ellipsis_mask, i) && !has(spec.new_axis_mask, i)) ++dims;
  }
  TORCH_CHECK(dims <= input.dim(), kOp, ": ", dims, " dimensions are indexed, input has ", input.dim());
}

SymInt from_start(int64_t place, const SymInt& size) { return place < 0 ? size + place : SymInt(place); }

Tensor strided(const Tensor& x, int64_t dim, const Spec& spec, size_t entry) {
  const SymInt size = x.sym_size(dim);
  const int64_t stride = spec.strides[entry];
  const bool first = has(spec.begin_mask, entry), last = has(spec.end_mask, entry);
  if (stride > 0) {
    const SymInt begin = first ? SymInt(0) : from_start(spec.begin[entry], size).max(0);
    return x.slice_symint(dim, begin, last ? size : from_start(spec.end[entry], size).max(0), stride);
  }
  const SymInt begin = first ? size - 1 : from_start(spec.begin[entry], size).min(size - 1);
  const SymInt end = last ? SymInt(-1) : from_start(spec.end[entry], size).max(-1);
  return x.slice_symint(dim, end + 1, begin + 1).flip(dim).slice_symint(dim, 0, std::nullopt, -stride);
}

Tensor indexing(const Tensor& input, at::IntArrayRef begin, at::IntArrayRef end, at::IntArrayRef strides,
                int64_t begin_mask, int64_t end_mask, int64_t ellipsis_mask, int64_t new_axis_mask,
                int64_t shrink_axis_mask) {
  const Spec spec = {begin, end, strides, begin_mask, end_mask, ellipsis_mask, new_axis_mask, shrink_axis_mask};
  check_spec(spec, input);
  int64_t indexed = 0;
  for (size_t i = 0; i < begin.size(); ++i) indexed += !has(ellipsis_mask, i) && !has(new_axis_mask, i);
  Tensor out = input;
  int64_t dim = 0;
  for (size_t i = 0; i < begin.size(); ++i) {
    if (has(ellipsis_mask, i)) {
      dim += input.dim() - indexed;
    } else if (has(new_axis_mask, i)) {
      out = out.unsqueeze(dim++);
    } else if (has(shrink_axis_mask, i)) {
      out = out.select_symint(dim, from_start(begin[i], out.sym_size(dim)));
    } else {
      out = strided(out, dim, spec, i);
      ++dim;
    }
  }
  return out.clone(at::MemoryFormat::Contiguous);
}

Tensor& indexing_out(const Tensor& input, at::IntArrayRef begin, at::IntArrayRef end, at::IntArrayRef strides,
                     int64_t begin_mask, int64_t end_mask, int64_t ellipsis_mask, int64_t new_axis_mask,
                     int64_t shrink_axis_mask, Tensor& out) {
  const Tensor result =
      indexing(input, begin, end, strides, begin_mask, end_mask, ellipsis_mask, new_axis_mask, shrink_axis_mask);
  check_same_shape("npu_indexing", "out", out, "the result", result);
  return out.copy_(result);
}

Tensor gather_sparse_index(const Tensor& input, const Tensor& index) {
  check_dims("npu_gather_sparse_index", "input", input, 1, 8);
  check_type("npu_gather_sparse_index", "index", index, {at::kInt, at::kLong});
  const Tensor rows = input.index_select(0, index.reshape(-1));
  std::vector<SymInt> sizes = index.sym_sizes().vec();
  for (int64_t dim = 1; dim < input.dim(); ++dim) sizes.push_back(input.sym_size(dim));
  return rows.view_symint(sizes);
}

Tensor gather_sparse_index_backward(const Tensor& grad, at::SymIntArrayRef sizes, const Tensor& index) {
  const Tensor places = index.reshape(-1);
  std::vector<SymInt> rows = {places.sym_size(0)};
  rows.insert(rows.end(), sizes.begin() + 1, sizes.end());
  return grad.new_zeros_symint(sizes).index_add(0, places, grad.reshape_symint(rows));
}

Two max_dim(const Tensor& input, int64_t dim, bool keepdim) {
  const auto [values, places] = at::max(input, dim, keepdim);
  return {values, places.to(at::kInt)};
}

Two min_dim(const Tensor& input, int64_t dim, bool keepdim) {
  const auto [values, places] = at::min(input, dim, keepdim);
  return {values, places.to(at::kInt)};
}

Tensor extremum_backward(const Tensor& grad, int64_t dim, const Tensor& places, at::SymIntArrayRef sizes,
                         bool keepdim) {
  const Tensor index = places.to(at::kLong);
  return grad.new_zeros_symint(sizes).scatter(dim, keepdim ? index : index.unsqueeze(dim),
                                              keepdim ? grad : grad.unsqueeze(dim));
}

Tensor index_add(const Tensor& input, const Tensor& index, const Tensor& source, const at::Scalar& alpha) {
  return input.index_add(0, index, source, alpha);
}

Tensor& index_add_(Tensor& input, const Tensor& index, const Tensor& source, const at::Scalar& alpha) {
  return input.index_add_(0, index, source, alpha);
}

// For each row b and place p: 1 + the last i with start[i, b] <= p < end[i, b]; 0 if there is none.
Tensor last_range(const Tensor& start, const Tensor& end, const SymInt& places) {
  const Tensor place = count_up(start, places);
  const Tensor inside = (place >= start.unsqueeze(-1)).logical_and(place < end.unsqueeze(-1));
  const Tensor number = count_up(start, start.sym_size(0)) + 1;
  return (inside * number.unsqueeze(-1).unsqueeze(-1)).amax(0);
}

Tensor masked_fill_range(const Tensor& input, const Tensor& start, const Tensor& end, const Tensor& value,
                         int64_t axis) {
  constexpr const char* kOp = "npu_masked_fill_range";
  check_dims(kOp, "input", input, 1, 8);
  check_dims(kOp, "start", start, 2, 2);
  check_same_shape(kOp, "end", end, "start", start);
  TORCH_CHECK(value.dim() == 1 && value.sym_size(0) == start.sym_size(0), kOp, ": value has shape ", value.sym_sizes(),
              ", allowed is one element for each of the ", start.sym_size(0), " rows of start");
  int64_t dim = at::maybe_wrap_dim(axis, input.dim());
  TORCH_CHECK(dim > 0 || input.dim() == 1, kOp, ": axis is 0, which counts the ranges of input");
  const Tensor x = input.dim() == 1 ? input.unsqueeze(0) : input;
  if (input.dim() == 1) dim = 1;
  TORCH_CHECK(start.sym_size(1) <= x.sym_size(0), kOp, ": start has ", start.sym_size(1), " columns, input has ",
              x.sym_size(0), " rows");
  const Tensor range = last_range(start, end, x.sym_size(dim));
  const Tensor all = longer(range, 0, x.sym_size(0) - start.sym_size(1));
  std::vector<SymInt> sizes(x.dim(), 1);
  sizes[0] = x.sym_size(0);
  sizes[dim] = x.sym_size(dim);
  const Tensor number = all.view_symint(sizes);
  const Tensor filled = value.index_select(0, (number - 1).clamp_min(0).reshape(-1)).view_symint(sizes);
  return at::where(number > 0, filled.to(x.scalar_type()), x).view_symint(input.sym_sizes());
}

Tensor sign_bits_pack(const Tensor& input, int64_t size) {
  constexpr const char* kOp = "npu_sign_bits_pack";
  check_type(kOp, "input", input, {at::kFloat, at::kHalf});
  check_dims(kOp, "input", input, 1, 1);
  const SymInt bytes = (input.sym_size(0) + 7) / 8;
  TORCH_CHECK(size >= 1 && bytes % size == 0, kOp, ": size is ", size, ", but there are ", bytes, " bytes");
  const Tensor all = longer(input, 0, bytes * 8 - input.sym_size(0), -1);
  return pack_bits(all >= 0).view_symint({size, bytes / size});
}

Tensor sign_bits_unpack(const Tensor& input, int64_t size, at::ScalarType dtype) {
  constexpr const char* kOp = "npu_sign_bits_unpack";
  check_type(kOp, "input", input, {at::kByte});
  check_dims(kOp, "input", input, 1, 1);
  TORCH_CHECK(size >= 1 && input.sym_size(0) * 8 % size == 0, kOp, ": size is ", size, ", but there are ",
              input.sym_size(0) * 8, " bits");
  return (unpack_bits(input).to(dtype) * 2 - 1).view_symint({size, input.sym_size(0) * 8 / size});
}

// Each element of the result is the sum of the gradients of its repetitions.
Tensor repeat_interleave_backward_tensor(const Tensor& grad, const Tensor& input, const Tensor& repeats,
                                         std::optional<int64_t> dim) {
  const Tensor x = dim ? input : input.reshape(-1);
  const int64_t along = dim.value_or(0);
  const Tensor ends = repeats.to(at::kLong).expand_symint({x.sym_size(along)}).cumsum(0);
  const Tensor place = count_up(grad, grad.sym_size(along));
  const Tensor from = at::searchsorted(ends, place, /*out_int32=*/false, /*right=*/true);
  const Tensor sums = grad.new_zeros_symint(x.sym_sizes()).index_add(along, from, grad);
  return sums.view_symint(input.sym_sizes());
}

Tensor repeat_interleave_backward_int(const Tensor& grad, const Tensor& input, SymInt repeats,
                                      std::optional<int64_t> dim) {
  const Tensor x = dim ? input : input.reshape(-1);
  const int64_t along = at::maybe_wrap_dim(dim.value_or(0), x.dim());
  return grad.unflatten_symint(along, {x.sym_size(along), repeats}).sum(along + 1).view_symint(input.sym_sizes());
}

}  // namespace

void define_indexing(OperatorLibrary& library) {
  library.add({
      .schema = "npu::_npu_index_add(Tensor input, Tensor index, Tensor source, *, Scalar alpha=1) -> Tensor",
      .kernel = parts(&index_add),
      .definition = "torch.index_add along dimension 0: adds alpha * source[i] to row index[i] of a copy of input. "
                    "Repeated indices add up.",
  });
  library.add({
      .schema = "npu::_npu_index_add_(Tensor(a!) input, Tensor index, Tensor source, *, Scalar alpha=1) -> Tensor(a!)",
      .kernel = composite(&index_add_),
      .definition = "torch.Tensor.index_add_ along dimension 0: adds alpha * source[i] to row index[i] of input in "
                    "place, and returns input. Repeated indices add up.",
  });
  library.add({
      .schema = "npu::npu_gather_sparse_index(Tensor input, Tensor index) -> Tensor",
      .kernel = parts(&gather_sparse_index),
      .definition = "Gathers rows of input as an embedding table: result[i, j, ...] = input[index[i, j, ...]]. input "
                    "is [N, ...] of any type with 1 to 8 dimensions. index is int32 or int64 of any shape, with values "
                    "in [0, N). The result is [*index.shape, *input.shape[1:]] of input's type.",
  });
  library.add({
      .schema = "npu::npu_gather_sparse_index_backward(Tensor grad, SymInt[] self_sizes, Tensor index) -> Tensor",
      .kernel = parts(&gather_sparse_index_backward),
      .definition = "Gradient of npu_gather_sparse_index with respect to input: adds the rows of grad to the rows "
                    "index of a tensor of zeros. self_sizes is the shape of input and of the result.",
  });
  library.add({
      .schema = "npu::npu_indexing(Tensor input, int[] begin, int[] end, int[] strides, int begin_mask=0, int "
                "end_mask=0, int ellipsis_mask=0, int new_axis_mask=0, int shrink_axis_mask=0) -> Tensor",
      .kernel = parts(&indexing),
      .definition = "Copies a strided slice of input (tf.strided_slice). Entry i of begin, end and strides describes "
                    "one dimension by begin[i]:end[i]:strides[i], where negative numbers have the meaning that they "
                    "have in NumPy. Bit i of a mask changes entry i: begin_mask and end_mask leave begin[i] and end[i] "
                    "out, ellipsis_mask makes the entry an ellipsis (one at most), new_axis_mask makes it a new "
                    "dimension of size 1, and shrink_axis_mask selects index begin[i] and drops the dimension. "
                    "Dimensions without an entry are taken whole. The result is contiguous.",
  });
  library.add({
      .schema = "npu::npu_indexing.out(Tensor input, int[] begin, int[] end, int[] strides, int begin_mask=0, int "
                "end_mask=0, int ellipsis_mask=0, int new_axis_mask=0, int shrink_axis_mask=0, *, Tensor(a!) out) -> "
                "Tensor(a!)",
      .kernel = composite(&indexing_out),
      .definition = "npu_indexing that writes its result into out, which has the shape of the result.",
  });
  library.add({
      .schema =
          "npu::npu_masked_fill_range(Tensor input, Tensor start, Tensor end, Tensor value, int axis=-1) -> Tensor",
      .kernel = parts(&masked_fill_range),
      .definition = "Copies input and fills ranges of indices along axis: for each range r and each index b of "
                    "dimension 0, elements start[r, b] to end[r, b] - 1 along axis of result[b] become value[r]. Where "
                    "ranges overlap, the one with the greatest r counts. input has 1 to 8 dimensions, and a 1-D input "
                    "counts as a single item b = 0. start and end are [R, B], and value is [R]. Items of dimension 0 "
                    "from B on stay as they are. axis is not 0 unless input is 1-D.",
  });
  library.add({
      .schema = "npu::npu_max.dim(Tensor input, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)",
      .kernel = parts(&max_dim),
      .definition = "torch.max along dim, with indices in int32. Results: values, of input's type, and indices, both "
                    "with dim of size 1 if keepdim is True and without dim otherwise.",
  });
  library.add({
      .schema = "npu::npu_max_backward(Tensor grad, int dim, Tensor indices, SymInt[] sizes, bool keepdim) -> Tensor",
      .kernel = parts(&extremum_backward),
      .definition = "Gradient of npu_max with respect to input: scatters grad to indices along dim of a tensor of "
                    "zeros. sizes is the shape of input and of the result; keepdim is that of npu_max.",
  });
  library.add({
      .schema = "npu::npu_min.dim(Tensor input, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)",
      .kernel = parts(&min_dim),
      .definition = "torch.min along dim, with indices in int32. Results: values, of input's type, and indices, both "
                    "with dim of size 1 if keepdim is True and without dim otherwise.",
  });
  library.add({
      .schema = "npu::npu_min_backward(Tensor grad, int dim, Tensor indices, SymInt[] sizes, bool keepdim) -> Tensor",
      .kernel = parts(&extremum_backward),
      .definition = "Gradient of npu_min with respect to input: scatters grad to indices along dim of a tensor of "
                    "zeros. sizes is the shape of input and of the result; keepdim is that of npu_min.",
  });
  library.add({
      .schema = "npu::npu_sign_bits_pack(Tensor input, int size) -> Tensor",
      .kernel = parts(&sign_bits_pack),
      .definition = "Packs the signs of a vector into bits (1-bit Adam: Tang et al., 2021). A bit is 1 for an element "
                    "that is at least 0, and 0 otherwise. input is [n] in float32 or float16. The result is [size, "
                    "ceil(n / 8) / size] in uint8. The first of eight elements is in the lowest bit of a byte, and the "
                    "last byte is filled up with zeros. size must divide ceil(n / 8).",
  });
  library.add({
      .schema = "npu::npu_sign_bits_unpack(Tensor input, int size, ScalarType dtype) -> Tensor",
      .kernel = parts(&sign_bits_unpack),
      .definition = "Unpacks the signs that npu_sign_bits_pack packed: 1 for a bit of 1 and -1 for a bit of 0, from "
                    "the lowest bit of each byte on. input is [n] in uint8. The result is [size, 8 * n / size] of type "
                    "dtype. size must divide 8 * n.",
  });
  library.add({
      .schema =
          "npu::repeat_interleave_backward_int(Tensor grad, Tensor input, SymInt repeats, int? dim=None) -> Tensor",
      .kernel = parts(&repeat_interleave_backward_int),
      .definition = "Gradient of torch.repeat_interleave(input, repeats, dim) with respect to input, for an integer "
                    "repeats: sums grad over the repetitions of each element. Without dim, input is taken as "
                    "flattened. The result has the shape of input, of which only the shape is used.",
  });
  library.add({
      .schema =
          "npu::repeat_interleave_backward_tensor(Tensor grad, Tensor input, Tensor repeats, int? dim=None) -> Tensor",
      .kernel = parts(&repeat_interleave_backward_tensor),
      .definition = "repeat_interleave_backward_int for a tensor repeats, which has one number for each index of dim, "
                    "or a single number for all.",
  });
}

}  // namespace npugraph::npu_ops
