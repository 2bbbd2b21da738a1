// SPDX-License-Identifier: Apache-2.0
#include "torch/npu_ops/host_arguments.h"

#include <algorithm>
#include <string_view>

#include <ATen/core/dispatch/Dispatcher.h>

#include "torch/npu/host_arguments.h"
#include "torch/npu/operators.h"

namespace npugraph::npu_ops {
namespace {

// Names of the arguments of Ascend's operators that are lengths of sequences or sizes of paddings.
constexpr std::string_view kHostArguments[] = {
    "actual_seq_kvlen",
    "actual_seq_len",
    "actual_seq_lengths",
    "actual_seq_lengths_key",
    "actual_seq_lengths_kv",
    "actual_seq_lengths_query",
    "actual_seq_qlen",
    "compress_lens",
    "context_lens",
    "kv_padding_size",
    "query_padding_size",
    "seq_len",
    "seq_length",
    "seq_lens",
    "seqlen",
};

}  // namespace

void declare_host_arguments() {
  for (const npu::Operator& op : npu::operators()) {
    const size_t dot = op.name.find('.');
    const std::string name = op.name.substr(0, dot), overload = dot == op.name.npos ? "" : op.name.substr(dot + 1);
    const auto handle = c10::Dispatcher::singleton().findSchemaOrThrow(name.c_str(), overload.c_str());
    for (const c10::Argument& argument : handle.schema().arguments()) {
      if (std::ranges::find(kHostArguments, argument.name()) != std::end(kHostArguments))
        npu::declare_host_argument(name, argument.name());
    }
  }
}

}  // namespace npugraph::npu_ops
