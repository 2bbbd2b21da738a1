// SPDX-License-Identifier: Apache-2.0
#include "device/eager/host_arguments.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include <ATen/Operators.h>

#include "device/npu/operators.h"

namespace npugraph::eager {
namespace {

namespace ops = at::_ops;

// Of torch's own operators, by the operator's name without its overload.
constexpr std::pair<std::string_view, std::string_view> kOfTorch[] = {
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

}  // namespace

bool may_be_on_host(const c10::OperatorHandle& op, const c10::Argument& argument) {
  if (const npu::Operator* row = npu::find_operator(op))
    return std::ranges::find(row->traits.on_host, argument.name()) != row->traits.on_host.end();
  const std::pair<std::string_view, std::string_view> given(op.operator_name().name, argument.name());
  return std::ranges::find(kOfTorch, given) != std::end(kOfTorch);
}

}  // namespace npugraph::eager
