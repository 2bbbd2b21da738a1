// SPDX-License-Identifier: Apache-2.0
#include <ATen/Operators.h>

#include "device/eager/register.h"
#include "device/eager/unboxed_kernel.h"

namespace npugraph::eager {
namespace {

template <typename... Ops>
void register_all(torch::Library& library) {
  (register_unboxed<Ops>(library), ...);
}

// The hot operators, by topic, as torch's own headers name them (operator_overload).
void register_arithmetic(torch::Library& library) {
  register_all<op::add_Tensor, op::add__Tensor, op::add_out, op::sub_Tensor, op::sub__Tensor, op::sub_out,
               op::mul_Tensor, op::mul__Tensor, op::mul_out, op::div_Tensor, op::div__Tensor, op::div_out,
               op::div_Tensor_mode, op::div__Tensor_mode>(library);
}

void register_comparisons(torch::Library& library) {
  register_all<op::eq_Tensor, op::eq_Scalar, op::ne_Tensor, op::ne_Scalar, op::lt_Tensor, op::lt_Scalar, op::le_Tensor,
               op::le_Scalar, op::gt_Tensor, op::gt_Scalar, op::ge_Tensor, op::ge_Scalar>(library);
}

void register_logic(torch::Library& library) {
  register_all<op::logical_and, op::logical_or, op::logical_xor, op::logical_not, op::logical_and_out,
               op::logical_or_out, op::bitwise_and_Tensor, op::bitwise_and__Tensor, op::bitwise_or_Tensor,
               op::bitwise_or__Tensor, op::bitwise_xor_Tensor, op::bitwise_not>(library);
}

void register_binary_functions(torch::Library& library) {
  register_all<op::maximum, op::minimum, op::fmax, op::fmin, op::pow_Tensor_Tensor, op::pow_Tensor_Scalar,
               op::pow_Scalar, op::pow__Scalar, op::remainder_Tensor, op::fmod_Tensor, op::atan2, op::hypot,
               op::lerp_Tensor, op::lerp_Scalar, op::lerp__Tensor, op::lerp__Scalar>(library);
}

void register_selection(torch::Library& library) {
  register_all<op::where_self, op::clamp, op::clamp_, op::clamp_Tensor, op::clamp_min, op::clamp_min_, op::clamp_max,
               op::clamp_max_, op::masked_fill__Scalar, op::masked_fill__Tensor, op::addcmul, op::addcmul_, op::addcdiv,
               op::addcdiv_>(library);
}

void register_unary_functions(torch::Library& library) {
  register_all<op::abs, op::abs_, op::neg, op::neg_, op::exp, op::exp_, op::exp2, op::expm1, op::log, op::log_,
               op::log2, op::log10, op::log1p, op::sqrt, op::sqrt_, op::rsqrt, op::rsqrt_, op::reciprocal,
               op::reciprocal_, op::sin, op::sin_, op::cos, op::cos_, op::tan, op::asin, op::acos, op::atan, op::sinh,
               op::cosh>(library);
}

void register_activations(torch::Library& library) {
  register_all<op::tanh, op::tanh_, op::sigmoid, op::sigmoid_, op::relu, op::relu_, op::gelu, op::gelu_, op::silu,
               op::silu_, op::mish, op::hardtanh, op::hardtanh_, op::hardswish, op::hardswish_, op::hardsigmoid,
               op::leaky_relu, op::leaky_relu_, op::elu, op::elu_, op::softplus, op::threshold, op::erf, op::erf_,
               op::erfc, op::erfinv>(library);
}

void register_tests_of_numbers(torch::Library& library) {
  register_all<op::floor, op::floor_, op::ceil, op::ceil_, op::round, op::round_, op::trunc, op::frac, op::sign,
               op::sgn, op::signbit, op::isnan, op::isinf, op::isposinf, op::isneginf, op::lgamma, op::digamma>(
      library);
}

void register_activation_gradients(torch::Library& library) {
  register_all<op::threshold_backward, op::gelu_backward, op::silu_backward, op::tanh_backward, op::sigmoid_backward,
               op::hardtanh_backward, op::leaky_relu_backward, op::elu_backward, op::softplus_backward,
               op::hardswish_backward>(library);
}

void register_reductions(torch::Library& library) {
  register_all<op::sum, op::sum_dim_IntList, op::mean, op::mean_dim, op::prod, op::prod_dim_int, op::amax, op::amin,
               op::aminmax, op::max, op::min, op::max_dim, op::min_dim, op::any, op::any_dim, op::all, op::all_dim,
               op::cumsum, op::cumprod, op::var_correction, op::std_correction, op::var_mean_correction,
               op::linalg_vector_norm, op::logsumexp, op::nansum>(library);
}

void register_order_and_search(torch::Library& library) {
  register_all<op::topk, op::sort, op::sort_stable, op::kthvalue, op::median_dim, op::mode, op::nonzero,
               op::searchsorted_Tensor, op::bucketize_Tensor, op::unique_dim, op::_unique2, op::bincount>(library);
}

void register_softmax(torch::Library& library) {
  register_all<op::_softmax, op::_log_softmax, op::_softmax_backward_data, op::_log_softmax_backward_data,
               op::_safe_softmax>(library);
}

void register_matrix_products(torch::Library& library) {
  register_all<op::baddbmm_, op::addmv, op::addmv_, op::addbmm, op::addr, op::linalg_solve_triangular>(library);
}

void register_normalisation(torch::Library& library) {
  register_all<op::native_layer_norm, op::native_layer_norm_backward, op::native_batch_norm,
               op::native_batch_norm_backward, op::_native_batch_norm_legit, op::_native_batch_norm_legit_no_training,
               op::native_group_norm, op::native_group_norm_backward>(library);
}

void register_indices(torch::Library& library) {
  register_all<op::embedding, op::embedding_dense_backward, op::index_select, op::index_Tensor, op::_index_put_impl_,
               op::index_add, op::index_add_, op::index_copy, op::index_copy_, op::index_fill__int_Scalar, op::gather,
               op::gather_out, op::scatter_src, op::scatter__src, op::scatter_value, op::scatter__value,
               op::scatter_add, op::scatter_add_, op::scatter_reduce_two, op::take, op::masked_select,
               op::masked_scatter_>(library);
}

void register_layout_and_filling(torch::Library& library) {
  register_all<op::cat, op::cat_out, op::fill__Scalar, op::fill__Tensor, op::zero_, op::tril, op::tril_, op::triu,
               op::triu_, op::flip, op::roll, op::repeat_interleave_Tensor, op::constant_pad_nd, op::reflection_pad1d,
               op::reflection_pad2d, op::replication_pad2d>(library);
}

void register_losses(torch::Library& library) {
  register_all<op::nll_loss_forward, op::nll_loss_backward, op::nll_loss2d_forward, op::nll_loss2d_backward,
               op::mse_loss, op::mse_loss_backward, op::smooth_l1_loss, op::huber_loss, op::binary_cross_entropy,
               op::binary_cross_entropy_backward>(library);
}

void register_images(torch::Library& library) {
  register_all<op::max_pool2d_with_indices, op::max_pool2d_with_indices_backward, op::avg_pool2d,
               op::avg_pool2d_backward, op::_adaptive_avg_pool2d, op::_adaptive_avg_pool2d_backward,
               op::upsample_nearest2d, op::upsample_nearest2d_backward, op::upsample_bilinear2d,
               op::upsample_bilinear2d_backward, op::grid_sampler_2d, op::im2col, op::col2im>(library);
}

void register_attention(torch::Library& library) {
  register_all<op::_scaled_dot_product_flash_attention_for_cpu,
               op::_scaled_dot_product_flash_attention_for_cpu_backward>(library);
}

}  // namespace

void register_unboxed_kernels(torch::Library& library) {
  register_arithmetic(library);
  register_comparisons(library);
  register_logic(library);
  register_binary_functions(library);
  register_selection(library);
  register_unary_functions(library);
  register_activations(library);
  register_tests_of_numbers(library);
  register_activation_gradients(library);
  register_reductions(library);
  register_order_and_search(library);
  register_softmax(library);
  register_matrix_products(library);
  register_normalisation(library);
  register_indices(library);
  register_layout_and_filling(library);
  register_losses(library);
  register_images(library);
  register_attention(library);
}

}  // namespace npugraph::eager
