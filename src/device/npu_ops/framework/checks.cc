// SPDX-License-Identifier: Apache-2.0
#include "device/npu_ops/framework/checks.h"

#include <algorithm>
#include <sstream>

namespace npugraph::npu_ops {
namespace {

// Element types by codes that are no torch.dtype: 256 + aclDataType.
std::optional<at::ScalarType> type_of_acl(int64_t code) {
  switch (code - 256) {
    case 0: return at::kFloat;
    case 1: return at::kHalf;
    case 2: return at::kChar;
    case 3: return at::kInt;
    case 4: return at::kByte;
    case 9: return at::kLong;
    case 27: return at::kBFloat16;
    case 35: return at::kFloat8_e5m2;
    case 36: return at::kFloat8_e4m3fn;
    case 37: return at::kFloat8_e8m0fnu;
    case 40: return at::kFloat4_e2m1fn_x2;
    default: return std::nullopt;
  }
}

}  // namespace

void check_type(const char* op, const char* name, const Tensor& tensor, std::initializer_list<at::ScalarType> allowed) {
  if (std::find(allowed.begin(), allowed.end(), tensor.scalar_type()) != allowed.end()) return;
  std::ostringstream names;
  for (const at::ScalarType type : allowed) names << (type == *allowed.begin() ? "" : ", ") << type;
  TORCH_CHECK(false, op, ": ", name, " is of type ", tensor.scalar_type(), ", allowed are ", names.str());
}

void check_floating(const char* op, const char* name, const Tensor& tensor) {
  check_type(op, name, tensor, {at::kFloat, at::kHalf, at::kBFloat16, at::kDouble});
}

void check_dims(const char* op, const char* name, const Tensor& tensor, int64_t at_least, int64_t at_most) {
  TORCH_CHECK(tensor.dim() >= at_least && tensor.dim() <= at_most, op, ": ", name, " has ", tensor.dim(),
              " dimensions, allowed are ", at_least, " to ", at_most);
}

void check_same_shape(const char* op, const char* name, const Tensor& tensor, const char* like_name,
                      const Tensor& like) {
  TORCH_CHECK(tensor.dim() == like.dim() && tensor.sym_sizes().equals(like.sym_sizes()), op, ": ", name, " has shape ",
              tensor.sym_sizes(), ", and not that of ", like_name, ", ", like.sym_sizes());
}

void check_last_dims(const char* op, const char* name, const Tensor& tensor, const char* of_name, const Tensor& of) {
  const bool fits = tensor.dim() <= of.dim() &&
                    tensor.sym_sizes().equals(of.sym_sizes().slice(of.dim() - tensor.dim(), tensor.dim()));
  TORCH_CHECK(fits, op, ": ", name, " has shape ", tensor.sym_sizes(), ", which are not the last dimensions of ",
              of_name, ", ", of.sym_sizes());
}

void check_choice(const char* op, const char* name, int64_t value, std::initializer_list<int64_t> allowed) {
  TORCH_CHECK(std::find(allowed.begin(), allowed.end(), value) != allowed.end(), op, ": ", name, " is ", value,
              ", allowed are ", at::IntArrayRef(allowed));
}

at::ScalarType type_of_code(const char* op, const char* name, std::optional<int64_t> code, at::ScalarType fallback) {
  if (!code) return fallback;
  if (*code >= 0 && *code < static_cast<int64_t>(at::ScalarType::NumOptions)) return static_cast<at::ScalarType>(*code);
  const auto found = type_of_acl(*code);
  TORCH_CHECK(found, op, ": ", name, " is ", *code,
              ", which is neither a torch.dtype nor a type of torch_npu that the host has");
  return *found;
}

}  // namespace npugraph::npu_ops
