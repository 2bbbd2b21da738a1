// SPDX-License-Identifier: Apache-2.0
// Which operators torch has, and which of them write straight into memory that they are given.
#include <algorithm>
#include <array>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <ATen/Operators.h>
#include <ATen/core/enum_tag.h>
#include <ATen/ops/_convert_weight_to_int4pack_for_cpu.h>
#include <ATen/ops/empty.h>
#include <c10/core/InferenceMode.h>

#include "backend/bridge/convert.h"
#include "backend/bridge/dispatch.h"
#include "backend/bridge/torch_host.h"

namespace npugraph::bridge {

namespace {

// Operators whose out-variants have a kernel that uses the result as scratch of another size, is for sparse tensors,
// writes beside a row-major result, or, in training, leaves the mean unwritten and reads it if the input is not dense.
constexpr std::array<std::string_view, 8> kUnfit = {
    at::_ops::linalg_lu_solve::name,   at::_ops::binary_cross_entropy::name,    at::_ops::huber_loss::name,
    at::_ops::mse_loss::name,          at::_ops::smooth_l1_loss::name,          at::_ops::sspaddmm::name,
    at::_ops::native_batch_norm::name, at::_ops::_native_batch_norm_legit::name};

// Operators whose out-variants write row-major results alone: they take the result for one, or step from matrix to
// matrix by the stride of a dimension of size 1.
constexpr std::array<std::string_view, 19> kRowMajor = {at::_ops::_log_softmax::name,
                                                        at::_ops::_log_softmax_backward_data::name,
                                                        at::_ops::_softmax::name,
                                                        at::_ops::_softmax_backward_data::name,
                                                        at::_ops::adaptive_max_pool3d::name,
                                                        at::_ops::adaptive_max_pool3d_backward::name,
                                                        at::_ops::avg_pool3d::name,
                                                        at::_ops::avg_pool3d_backward::name,
                                                        at::_ops::fractional_max_pool2d::name,
                                                        at::_ops::fractional_max_pool2d_backward::name,
                                                        at::_ops::fractional_max_pool3d::name,
                                                        at::_ops::fractional_max_pool3d_backward::name,
                                                        at::_ops::gelu::name,
                                                        at::_ops::linalg_lu::name,
                                                        at::_ops::lu_unpack::name,
                                                        at::_ops::narrow_copy::name,
                                                        at::_ops::tril::name,
                                                        at::_ops::triu::name,
                                                        at::_ops::upsample_bicubic2d_backward::name};

// Out-variants that return an infinity for an empty tensor, which the functional operators refuse.
bool is_unchecked(const c10::OperatorName& variant) {
  namespace ops = at::_ops;
  return (variant.name == ops::max_unary_out::name && variant.overload_name == ops::max_unary_out::overload_name) ||
         (variant.name == ops::min_unary_out::name && variant.overload_name == ops::min_unary_out::overload_name);
}

bool is_tensor_type(const c10::TypePtr& type) { return type->kind() == c10::TypeKind::TensorType; }
bool is_written(const c10::AliasInfo* alias) { return alias != nullptr && alias->isWrite(); }

// Whether results are fresh tensors whose number and sizes do not depend on data.
bool is_functional(const c10::OperatorHandle& op) {
  const c10::FunctionSchema& schema = op.schema();
  const auto writes = [](const c10::Argument& arg) { return is_written(arg.alias_info()); };
  const auto fresh = [](const c10::Argument& result) {
    return is_tensor_type(result.type()) && result.alias_info() == nullptr;
  };
  return std::none_of(schema.arguments().begin(), schema.arguments().end(), writes) && !schema.returns().empty() &&
         std::all_of(schema.returns().begin(), schema.returns().end(), fresh) &&
         !op.hasTag(at::Tag::dynamic_output_shape) && !op.hasTag(at::Tag::data_dependent_output);
}

// Positions of the out arguments of `out`, if it takes the arguments of
// `functional` and one tensor to write per result.
std::optional<std::vector<int32_t>> pair(const c10::FunctionSchema& functional, const c10::FunctionSchema& out) {
  std::vector<int32_t> out_args;
  auto wanted = functional.arguments().begin();
  for (size_t i = 0; i < out.arguments().size(); ++i) {
    const c10::Argument& arg = out.arguments()[i];
    if (is_written(arg.alias_info())) {
      if (!is_tensor_type(arg.type())) return std::nullopt;
      out_args.push_back(static_cast<int32_t>(i));
      continue;
    }
    if (wanted == functional.arguments().end() || wanted->name() != arg.name()) return std::nullopt;
    if (wanted->real_type()->str() != arg.real_type()->str()) return std::nullopt;
    ++wanted;
  }
  if (wanted != functional.arguments().end() || out_args.size() != functional.returns().size()) return std::nullopt;
  return out_args;
}

// The packing that agrees with torch on an example, which has whole blocks and a remainder for every packing.
std::optional<loop::Int4Packing> find_int4_packing() {
  constexpr int64_t kColumns = 112, kSteps = 4;
  const c10::InferenceMode normal_mode(false);
  const BelowAutograd below;
  at::Tensor codes = at::empty({kColumns, kSteps}, at::kInt);
  const auto code = [&](int64_t column, int64_t step) {
    return codes.const_data_ptr<int32_t>()[column * kSteps + step];
  };
  for (int64_t i = 0; i < kColumns * kSteps; ++i)
    codes.mutable_data_ptr<int32_t>()[i] = static_cast<int32_t>(i * i / 3 % 16);
  const at::Tensor packed = at::_convert_weight_to_int4pack_for_cpu(codes, 2).contiguous();
  const auto* bytes = static_cast<const uint8_t*>(packed.const_data_ptr());
  if (packed.nbytes() != kColumns * kSteps / 2) return std::nullopt;
  for (const loop::Int4Packing& packing : loop::kInt4Packings) {
    bool same = true;
    for (int64_t i = 0; i < kColumns * kSteps; ++i) {
      const int64_t column = i / kSteps, step = i % kSteps;
      const loop::Int4Place place = loop::place_of_code(packing, kColumns, kSteps, column, step);
      same = same && (bytes[place.byte] >> place.shift & 15) == code(column, step);
    }
    if (same) return packing;
  }
  return std::nullopt;
}

class Catalog final : public lower::OperatorCatalog {
 public:
  std::optional<lower::OutVariant> out_variant(const ir::Op& op) const override {
    const std::lock_guard lock(mutex_);
    const auto known = variants_.find(op.name);
    if (known != variants_.end()) return known->second;
    return variants_.emplace(op.name, find_out_variant(op.name)).first->second;
  }

  bool can_run(const ir::Op& op) const override {
    const auto handle = find_operator(op.name);
    if (!handle) return false;
    const auto& args = handle->schema().arguments();
    return std::all_of(args.begin(), args.end(), [](const c10::Argument& arg) { return is_convertible(arg); });
  }

  std::optional<loop::Int4Packing> int4_packing() const override {
    static const auto found = find_int4_packing();
    return found;
  }

 private:
  std::optional<lower::OutVariant> find_out_variant(const std::string& name) const {
    const auto functional = find_operator(name);
    if (!functional || !is_functional(*functional)) return std::nullopt;
    const std::string& base = functional->operator_name().name;
    if (std::find(kUnfit.begin(), kUnfit.end(), base) != kUnfit.end()) return std::nullopt;
    for (const c10::OperatorName& overload : overloads_of(base)) {
      if (is_unchecked(overload)) continue;
      const auto out = c10::Dispatcher::singleton().findSchema(overload);
      // Composite out-variants compute a fresh result and copy it; they have no
      // kernel that is registered for the CPU itself.
      if (!out || !out->hasKernelForDispatchKey(c10::DispatchKey::CPU)) continue;
      if (auto out_args = pair(functional->schema(), out->schema())) {
        const bool any_strides = std::ranges::find(kRowMajor, base) == kRowMajor.end();
        return lower::OutVariant{fx_name_of(overload), c10::toString(out->schema()), std::move(*out_args), any_strides};
      }
    }
    return std::nullopt;
  }

  // Overloads that libraries register later are not seen; out-variants come with torch.
  const std::vector<c10::OperatorName>& overloads_of(const std::string& name) const {
    if (overloads_.empty()) {
      for (const c10::OperatorName& op : c10::Dispatcher::singleton().getAllOpNames())
        overloads_[op.name].push_back(op);
    }
    return overloads_[name];
  }

  mutable std::mutex mutex_;
  mutable std::unordered_map<std::string, std::optional<lower::OutVariant>> variants_;
  mutable std::unordered_map<std::string, std::vector<c10::OperatorName>> overloads_;
};

}  // namespace

const lower::OperatorCatalog& aten_catalog() {
  static const auto* catalog = new Catalog;
  return *catalog;
}

}  // namespace npugraph::bridge
