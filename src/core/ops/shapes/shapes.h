// SPDX-License-Identifier: Apache-2.0
// Shape and dtype rules of the table: the types of fresh results, with eager's strides. A rule returns nothing when
// symbols, torch's default dtype or an argument that it does not know leave the answer open. Internal to ops/.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "ops/row.h"

namespace npugraph::ops::shapes {

// Helpers of several rules: they build result types and read arguments. Internal to ops/.

using Sizes = std::optional<std::vector<Expr>>;

// Whether kernels of the CPU compute tensors of the device: those of npu lie in memory of this host.
bool runs_on_cpu(const Device& device);

// A row-major tensor.
ir::TensorType dense(DType dtype, std::vector<Expr> sizes, Device device);
// The same as the only result.
Types contiguous(DType dtype, std::vector<Expr> sizes, Device device);
// The type as the only result; nullopt without one.
Types only(std::optional<ir::TensorType> type);
// A tensor with the element type and on the device of `self` as the only result; nullopt without strides.
Types like(const ir::TensorType& self, std::vector<Expr> sizes, std::optional<std::vector<Expr>> strides);

// Both as the results; nullopt if one is missing.
Types both(std::optional<ir::TensorType> first, std::optional<ir::TensorType> second);

// Fresh tensors of `sizes` on the device of `like`, one for each element type: in row-major order, or in the memory
// format that torch suggests for `like`. Returns nullopt without sizes, or if symbols leave the format open.
Types row_major(const ir::TensorType& like, const std::vector<DType>& dtypes, const Sizes& sizes);
Types in_suggested_format(const Call& call, const ir::TensorType& like, const std::vector<DType>& dtypes,
                          const Sizes& sizes);

// A copy of argument `i` that keeps the memory order of its dimensions, in this dtype or its own. Returns nullopt if
// the argument is no strided tensor, or symbols leave the order open.
std::optional<ir::TensorType> copied(const Call& call, size_t i, std::optional<DType> dtype = std::nullopt);

// The result of a creation operator, in argument `dtype` if it is given, else in this dtype. Returns nullopt if neither
// is given, since torch then uses its default dtype.
Types created(const Call& call, std::optional<DType> dtype, std::vector<Expr> sizes);

// The broadcast of the leading sizes of two batches of matrices, [..., rows, columns].
Sizes broadcast_batch(const Call& call, const std::vector<Expr>& a, const std::vector<Expr>& b);

// The argument `name`, or `otherwise` if the operator has no such argument or it is None.
template <typename T>
T named_or(const Call& call, std::string_view name, T otherwise) {
  const auto arg = call.find(name);
  const T* value = arg ? std::get_if<T>(&call.args[*arg]) : nullptr;
  return value == nullptr ? otherwise : *value;
}
// Whether the flag `name`, which the operator has, is known to be set.
inline bool is_set(const Call& call, std::string_view name) { return call.boolean(*call.find(name)).value_or(false); }
// Whether element `i` of argument `output_mask` asks for a result.
bool is_asked_for(const Call& call, size_t i);

// Elementwise.
Types unary(const Call& call);           // the type of the first argument
Types unary_float(const Call& call);     // the same, for floating point only
Types absolute(const Call& call);        // complex becomes real
Types predicate(const Call& call);       // bool
Types promote(const Call& call);         // tensors and numbers are promoted together
Types promote_float(const Call& call);   // the same, for floating point only
Types divide_mode(const Call& call);     // rounding_mode none divides in floating point
Types compare(const Call& call);         // broadcast to bool
Types select_by_mask(const Call& call);  // where
Types masked_fill(const Call& call);
Types convert(const Call& call);  // prims.convert_element_type

// Reductions: dense row-major results.
Types sum(const Call& call);  // integers become i64, unless dtype says otherwise
Types mean(const Call& call);
Types mean_like(const Call& call);      // floating point and complex only
Types variance(const Call& call);       // the same, and complex becomes real
Types variance_mean(const Call& call);  // a variance and a mean
Types norm(const Call& call);           // like variance, in argument dtype if given
Types reduce_same(const Call& call);    // the type of the argument
Types reduce_same_pair(const Call& call);
Types reduce_with_index(const Call& call);
Types reduce_index(const Call& call);
Types reduce_bool(const Call& call);

// Products and look-ups.
Types mm(const Call& call);
Types addmm(const Call& call);
Types bmm(const Call& call);
Types baddbmm(const Call& call);
Types mv(const Call& call);
Types dot(const Call& call);
Types embedding(const Call& call);
Types gather(const Call& call);  // and take

// Products of torch_npu.
Types npu_quant_matmul(const Call& call);
Types npu_weight_quant_batchmatmul(const Call& call);

// Copies and fresh tensors.
Types clone(const Call& call);
Types to_copy(const Call& call);
Types like_self(const Call& call);               // known only for row-major tensors
Types like_self_contiguous(const Call& call);    // always row-major
Types like_second_contiguous(const Call& call);  // the type of the second argument, row-major
Types cat(const Call& call);
Types stack(const Call& call);
Types arange(const Call& call);
Types create(const Call& call);  // full, zeros, ones, empty
Types create_scalar(const Call& call);
Types create_strided(const Call& call);
Types create_new(const Call& call);   // new_*, and others whose argument 1 holds the sizes
Types create_like(const Call& call);  // *_like

// Pools, unpooling and their gradients: in the memory format that torch suggests for the argument, or row-major.
Types max_pool2d(const Call& call);
Types max_pool3d(const Call& call);
Types avg_pool1d(const Call& call);
Types avg_pool2d(const Call& call);
Types avg_pool3d(const Call& call);
Types adaptive_avg_pool1d(const Call& call);
Types adaptive_max_pool2d(const Call& call);
Types adaptive_max_pool3d(const Call& call);
Types to_output_size2d(const Call& call);  // images of argument output_size
Types to_output_size3d(const Call& call);  // volumes, row-major
Types fractional_max_pool2d(const Call& call);
Types pool_gradient(const Call& call);        // the type of the second argument, dense
Types max_pool3d_gradient(const Call& call);  // the same for volumes

// Images and volumes in other sizes.
Types upsample(const Call& call);
Types upsample_scaled(const Call& call);  // by output_size or scale_factors
Types upsample_gradient(const Call& call);
Types upsample_bicubic_gradient(const Call& call);  // row-major
Types grid_sampler(const Call& call);
Types grid_sampler_gradient(const Call& call);
Types affine_grid(const Call& call);
Types im2col(const Call& call);
Types col2im(const Call& call);
Types pixel_shuffle(const Call& call);
Types pixel_unshuffle(const Call& call);
Types channel_shuffle(const Call& call);

// Sequences.
Types lstm_cell(const Call& call);
Types ctc_loss(const Call& call);

// Random numbers.
Types random_of_size(const Call& call);
Types random_permutation(const Call& call);
Types sample_like_parameters(const Call& call);  // row-major, in the type of the first tensor of two parameters
Types multinomial(const Call& call);
Types dropout(const Call& call);
Types dropout_with_mask(const Call& call);
Types dropout_with_byte_mask(const Call& call);
Types two_in_rows(const Call& call);  // the types of the first two arguments, row-major

// Reads and writes at indices.
Types index(const Call& call);  // in the memory order that TensorIterator derives from self and the indices
Types index_select(const Call& call);
Types masked_scatter(const Call& call);
Types repeat_interleave(const Call& call);
Types repeated_positions(const Call& call);  // repeat_interleave of counts alone
Types one_hot(const Call& call);
Types embedding_bag(const Call& call);
Types embedding_bag_forward_only(const Call& call);
Types embedding_backward(const Call& call);

// Searches and counts, whose result sizes are often known only at run time.
Types nonzero(const Call& call);
Types nonzero_static(const Call& call);
Types masked_select(const Call& call);
Types unique(const Call& call);
Types unique_dim(const Call& call);  // with or without dim
Types bincount(const Call& call);
Types histogram(const Call& call);
Types positions(const Call& call);  // bucketize, searchsorted
Types is_in(const Call& call);
Types numbers(const Call& call);  // no tensor results

// Scans and sorting.
Types scan(const Call& call);  // integers become i64, unless dtype says otherwise
Types scan_with_index(const Call& call);
Types sort(const Call& call);
Types argsort(const Call& call);
Types topk(const Call& call);

// Softmax: row-major.
Types softmax(const Call& call);
Types softmax_dtype(const Call& call);  // in argument dtype, if given
Types softmax_backward(const Call& call);

// Norms.
Types layer_norm(const Call& call);
Types layer_norm_backward(const Call& call);
Types rms_norm(const Call& call);
Types rms_norm_backward(const Call& call);
Types group_norm(const Call& call);
Types group_norm_backward(const Call& call);
Types batch_norm(const Call& call);            // training according to argument training
Types batch_norm_training(const Call& call);   // always training
Types batch_norm_inference(const Call& call);  // never training
Types batch_norm_backward(const Call& call);
Types weight_norm(const Call& call);

// Losses and distances.
Types nll_loss(const Call& call);
Types kl_div(const Call& call);
Types distance(const Call& call);            // between two tensors
Types distances(const Call& call);           // between each row of one tensor and each row of the other
Types pairwise_distances(const Call& call);  // between each two rows of one tensor

// More products: dense row-major results.
Types addbmm(const Call& call);
Types addmv(const Call& call);
Types addr(const Call& call);        // elementwise in layout and type
Types grouped_mm(const Call& call);  // rows in groups, with a matrix for each group
Types mm_in_i32(const Call& call);   // integers accumulate in i32
Types mm_scaled(const Call& call);   // in argument out_dtype, if given
Types matmul(const Call& call);
Types linear(const Call& call);  // the last size becomes the first size of the weight, argument 1
Types trilinear(const Call& call);
Types rnn_layer(const Call& call);  // known only without training
Types cross(const Call& call);

// Convolutions: channels last if the input or the weight is.
Types convolution(const Call& call);
Types convolution_backward(const Call& call);

// Attention over [batch, heads, rows, size].
Types attention(const Call& call);        // npugraph.attention
Types attention_fused(const Call& call);  // in the layout of the query; also the log-sum-exp of each row
Types attention_fused_backward(const Call& call);
Types attention_written_out(const Call& call);  // any rank; also the attention weights
Types attention_either(const Call& call);       // known only if both kernels give the same layout

// Quantisation.
Types quantize(const Call& call);
Types dequantize(const Call& call);  // to argument out_dtype, or f32
Types quantize_channels(const Call& call);
Types dequantize_channels(const Call& call);
Types gguf_embedding(const Call& call);

// Linear algebra.
Types matrix_by_row(const Call& call);  // the type of the argument, square matrices
Types matrix_by_column(const Call& call);
Types square_by_column(const Call& call);
Types square_with_info(const Call& call);  // like square_by_column, and error codes
Types factor_with_info(const Call& call);  // factors by column, pivots, error codes
Types determinant(const Call& call);       // or its sign and logarithm; also factors and pivots
Types lu(const Call& call);                // permutation, lower and upper factors
Types qr(const Call& call);
Types geqrf(const Call& call);
Types eigenvalues(const Call& call);  // complex, with vectors if the operator returns two tensors
Types eigenvalues_real(const Call& call);
Types svd(const Call& call);
Types pseudoinverse(const Call& call);
Types solve(const Call& call);
Types solve_lu(const Call& call);
Types solve_triangular(const Call& call);
Types solve_cholesky(const Call& call);
Types solve_triangular_with_copy(const Call& call);  // solution, and a copy of the matrices
Types least_squares(const Call& call);               // by LAPACK's drivers on the CPU
Types multiply_by_reflections(const Call& call);

// Fourier transforms.
Types fft_complex(const Call& call);
Types fft_from_real(const Call& call);
Types fft_to_real(const Call& call);

// Copies of parts, padding, triangles.
Types copies(const Call& call, ViewRule view);  // dense row-major copies of the views that `view` describes
Types parts(const Call& call, ViewRule view);   // the views themselves
template <ViewRule kView>
Types copy_of(const Call& call) {
  return copies(call, kView);
}
template <ViewRule kView>
Types part_of(const Call& call) {
  return parts(call, kView);
}
Types view_copy(const Call& call);
Types same_strides(const Call& call);    // of the first argument, unless its elements overlap
Types slice_inverse(const Call& call);   // sizes and strides of the second argument
Types suggested_copy(const Call& call);  // in the memory format that torch suggests for the first argument
Types roll(const Call& call);
Types rot90(const Call& call);
Types repeat(const Call& call);
Types tile(const Call& call);
Types diag_embed(const Call& call);
Types constant_pad(const Call& call);
Types pad(const Call& call);           // reflection and replication
Types pad_backward(const Call& call);  // the type of the second argument
Types pad_sequence(const Call& call);
Types block_diag(const Call& call);
Types cartesian_product(const Call& call);
Types kron(const Call& call);
Types lower_triangle(const Call& call);
Types upper_triangle(const Call& call);

// Elementwise, with layouts or types of their own.
Types angle(const Call& call);                     // complex becomes real, in row-major order
Types complex_of_parts(const Call& call);          // complex, polar
Types mantissa_and_exponent(const Call& call);     // frexp
Types promote_contiguous(const Call& call);        // promote, always row-major
Types promote_float_contiguous(const Call& call);  // promote_float, always row-major
Types log_sigmoid_with_buffer(const Call& call);
Types glu(const Call& call);  // half as long in one dimension

// Losses: one for each element, or a tensor without dimensions for their mean or sum.
Types loss(const Call& call);
Types cross_entropy(const Call& call);              // in the layout of the first argument
Types cross_entropy_with_logits(const Call& call);  // in the layout of the target
Types cross_entropy_backward(const Call& call);     // in the layout of the second argument

// Fresh tensors whose sizes are given as numbers.
Types eye(const Call& call);
Types create_vector(const Call& call);    // linspace, logspace, windows
Types create_permuted(const Call& call);  // empty_permuted

// Arguments that are returned as they are, or copies of them.
Types same(const Call& call);                 // sizes and strides of the first argument
Types copy_of_last(const Call& call);         // a copy of the last argument
Types contiguous_as_asked(const Call& call);  // contiguous
Types reshape(const Call& call);

// Collectives: row-major results.
Types reduced_by_all(const Call& call);  // the sizes of the inputs
Types gathered(const Call& call);        // dimension 0 times the number of ranks
Types scattered(const Call& call);       // dimension 0 divided by the number of ranks
Types exchanged(const Call& call);       // dimension 0 is the sum of the received parts

}  // namespace npugraph::ops::shapes
