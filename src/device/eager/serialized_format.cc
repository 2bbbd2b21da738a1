// SPDX-License-Identifier: Apache-2.0
#include "device/eager/serialized_format.h"

#include <charconv>
#include <string>
#include <string_view>
#include <unordered_map>

#include <torch/csrc/jit/serialization/pickler_helper.h>

#include "device/npu/facts.h"
#include "device/npu/format.h"

namespace npugraph::eager {
namespace {

// torch keeps a boolean for each name, so each format is a name.
using Metadata = std::unordered_map<std::string, bool>;
constexpr std::string_view kName = "npu_format_";

void put_format(const at::Tensor& tensor, Metadata& metadata) {
  if (!tensor.has_storage() || tensor.storage().device().type() != npu::kNpu) return;  // a fake tensor
  if (const int format = npu::format_of(tensor); format != kPlainFormat)
    metadata[std::string(kName) + std::to_string(format)] = true;
}

void take_format(const at::Tensor& tensor, Metadata& metadata) {
  for (const auto& [name, is_set] : metadata) {
    if (!is_set || !name.starts_with(kName)) continue;
    int code = 0;
    std::from_chars(name.data() + kName.size(), name.data() + name.size(), code);
    npu::check_format("torch.load", code);
    npu::set_format(tensor, code);
  }
}

}  // namespace

void register_serialized_format() { torch::jit::TensorBackendMetaRegistry(npu::kNpu, &put_format, &take_format); }

}  // namespace npugraph::eager
