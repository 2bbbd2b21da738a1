// SPDX-License-Identifier: Apache-2.0
#include "torch/npu/host_arguments.h"

#include <set>
#include <utility>

#include <ATen/Operators.h>
#include <ATen/core/Tensor.h>

namespace npugraph::npu {
namespace {

using Arguments = std::set<std::pair<std::string, std::string>>;

// At first those of torch's own operators. Filled while the libraries of
// operators are loaded, and only read afterwards.
Arguments& host_arguments() {
  namespace ops = at::_ops;
  static auto* all = new Arguments{
      {ops::index_Tensor::name, "indices"},
      {ops::_unsafe_index_Tensor::name, "indices"},
      {ops::index_put::name, "indices"},
      {ops::index_put_::name, "indices"},
      {ops::_index_put_impl::name, "indices"},
      {ops::_index_put_impl_::name, "indices"},
      {ops::_unsafe_index_put::name, "indices"},
      {ops::_pack_padded_sequence::name, "lengths"},
      {ops::_ctc_loss::name, "input_lengths"},
      {ops::_ctc_loss::name, "target_lengths"},
      {ops::_ctc_loss_backward::name, "input_lengths"},
      {ops::_ctc_loss_backward::name, "target_lengths"},
  };
  return *all;
}

}  // namespace

void declare_host_argument(const std::string& op, const std::string& argument) {
  host_arguments().emplace(op, argument);
}

bool may_be_on_host(const std::string& op, const std::string& argument) {
  return host_arguments().contains({op, argument});
}

}  // namespace npugraph::npu
