// SPDX-License-Identifier: Apache-2.0
#include "backend/bridge/declared.h"

#include <algorithm>
#include <utility>

#include <ATen/ops/empty_strided.h>

#include "backend/bridge/convert.h"
#include "backend/bridge/host_device.h"
#include "base/error.h"
#include "tensor/shape.h"

namespace npugraph::bridge {

using program::Access;
using program::BufferClass;
using program::Dim;

namespace {

bool mentions(const program::Program& program, const std::vector<Dim>& dims, const std::vector<std::string>& symbols) {
  return std::any_of(dims.begin(), dims.end(), [&](const Dim& dim) {
    std::vector<std::string> used;
    if (!dim.is_constant()) collect_symbols(program.exprs[dim.expr], used);
    return std::find_first_of(used.begin(), used.end(), symbols.begin(), symbols.end()) != used.end();
  });
}

std::vector<Expr> exprs_of(const program::Program& program, const std::vector<Dim>& dims) {
  std::vector<Expr> exprs;
  for (const Dim& dim : dims) exprs.push_back(program.expr(dim));
  return exprs;
}

bool same_strides(const at::Tensor& tensor, const int64_t* strides) {
  const auto sizes = tensor.sizes();
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] > 1 && tensor.strides()[i] != strides[i]) return false;
  }
  return true;
}

int64_t bytes_of(const at::Tensor& tensor) { return static_cast<int64_t>(tensor.nbytes()); }

bool is_read(const program::Program& program, int32_t buffer) {
  return std::ranges::any_of(program.tasks, [&](const program::Task& task) {
    return std::ranges::any_of(task.operands, [&](const program::Operand& operand) {
      return operand.buffer == buffer && operand.access != Access::kWrite;
    });
  });
}

// Has no element type, unlike any tensor with memory.
void* absent_object() {
  return c10::make_intrusive<c10::TensorImpl>(c10::DispatchKeySet(c10::DispatchKey::CPU), caffe2::TypeMeta(), c10::kCPU)
      .release();
}

}  // namespace

Declared::Declared(const program::Program& program, const program::Task& task)
    : name_(task.name), results_(task.results) {
  std::vector<std::string> own_symbols;
  for (const program::Defined& defined : task.defines) {
    const program::Symbol& symbol = program.symbols.at(defined.symbol);
    own_symbols.push_back(symbol.name);
    defines_.push_back({symbol.kind, defined.operand, defined.dim, defined.result});
    defines_sizes_ |= defined.dim != program::kNone;
  }
  for (const program::Operand& operand : task.operands) {
    const program::Buffer& buffer = program.buffers.at(operand.buffer);
    DeclaredOperand& declared = operands_.emplace_back();
    declared.dtype = operand.dtype;
    declared.opaque = buffer.opaque;
    declared.device = to_torch(buffer.device);
    declared.written = operand.access != Access::kRead;
    declared.adopted = operand.access == Access::kWrite && buffer.cls == BufferClass::kHeap && !buffer.preallocated;
    declared.may_be_absent = declared.adopted && results_.size() > 1 && !is_read(program, operand.buffer);
    declared.sized_late = mentions(program, operand.sizes, own_symbols);
    if (declared.sized_late) {
      declared.contiguous =
          npugraph::is_contiguous(exprs_of(program, operand.sizes), exprs_of(program, operand.strides));
    }
  }
}

void Declared::fail(const std::string& what) const { throw InternalError(cat("operator ", name_, " ", what)); }

void Declared::store(ng_call* call, size_t number, at::Tensor result, const BorrowedTensor* own) const {
  const int32_t index = results_[number];
  const DeclaredOperand& operand = operands_[index];
  ng_buffer& buffer = call->buffers[index];
  if (!result.defined()) {
    if (!operand.may_be_absent) fail(cat("returned no tensor as result ", number));
    buffer.data = nullptr;
    buffer.object = absent_object();
    return;
  }
  if (operand.opaque) {
    buffer.data = nullptr;
    buffer.object = result.unsafeReleaseTensorImpl();
    return;
  }
  if (is_host_device(result.device())) result = host_device()->cpu_alias(std::exchange(result, {}));
  if (result.layout() != at::kStrided || !result.device().is_cpu())
    fail(cat("returned ", result.toString(), " as result ", number));
  if (result.scalar_type() != to_torch(operand.dtype)) {
    fail(cat("returned ", result.scalar_type(), " where ", to_torch(operand.dtype), " was promised"));
  }
  const at::IntArrayRef promised(buffer.sizes, static_cast<size_t>(buffer.rank));
  // Sizes that depend on values, or that operators of the user promise, are
  // under the control of the user: no InternalError.
  TORCH_CHECK(operand.sized_late ? result.dim() == buffer.rank : result.sizes() == promised, "operator ", name_,
              " returned sizes ", result.sizes(), " where the program needs ", promised);
  if (defines_sizes_) {
    for (size_t i = 0; i < defines_.size(); ++i) {
      if (defines_[i].operand == index && defines_[i].dim != program::kNone)
        call->defined[i].i = result.size(defines_[i].dim);
    }
  }
  if (operand.adopted) {
    adopt(call, index, std::move(result));
  } else if (own == nullptr) {
    BorrowedTensor memory(operand.dtype);
    memory.set_shape(promised, {buffer.strides, promised.size()});
    memory.point_to(buffer.data);
    memory.tensor().copy_(result);
    count_copied(call, bytes_of(result));
  } else if (!own->shares_storage_with(result)) {
    own->tensor().copy_(result);
    count_copied(call, bytes_of(result));
  }
}

void Declared::adopt(const ng_call* call, int32_t index, at::Tensor result) const {
  ng_buffer& buffer = call->buffers[index];
  // A copy is made while its source is alive, so it has another address.
  const void* made = result.const_data_ptr();
  at::Tensor claimed = claim(std::move(result));
  const void* own = claimed.const_data_ptr();
  if (own != made) count_copied(call, bytes_of(claimed));
  at::Tensor placed = with_strides(buffer, operands_[index], std::move(claimed));
  if (placed.const_data_ptr() != own) count_copied(call, bytes_of(placed));
  buffer.data = placed.data_ptr();
  buffer.object = placed.unsafeReleaseTensorImpl();
}

at::Tensor Declared::with_strides(const ng_buffer& buffer, const DeclaredOperand& operand, at::Tensor result) const {
  if (operand.sized_late) return operand.contiguous ? result.contiguous() : result;
  if (result.numel() == 0 || same_strides(result, buffer.strides)) return result;
  at::Tensor exact =
      at::empty_strided(result.sizes(), {buffer.strides, static_cast<size_t>(buffer.rank)}, result.options());
  return exact.copy_(result);
}

void Declared::store_scalar(ng_call* call, size_t position, const at::Scalar& value) const {
  for (size_t i = 0; i < defines_.size(); ++i) {
    if (defines_[i].result == static_cast<int32_t>(position)) return store_symbol(call, i, value);
  }
}

void Declared::store_symbol(ng_call* call, size_t index, const at::Scalar& value) const {
  if (index >= defines_.size()) return;
  switch (defines_[index].kind) {
    case ScalarKind::kInt: call->defined[index].i = value.toLong(); break;
    case ScalarKind::kFloat: call->defined[index].f = value.toDouble(); break;
    case ScalarKind::kBool: call->defined[index].i = value.toBool() ? 1 : 0; break;
  }
}

bool is_absent(const c10::TensorImpl& object) { return object.dtype() == caffe2::TypeMeta(); }

void count_copied(const ng_call* call, int64_t bytes) {
  if (bytes != 0 && call->host != nullptr && call->host->count_copied != nullptr) {
    call->host->count_copied(call->host, bytes);
  }
}

at::Tensor claim(at::Tensor tensor) {
  tensor = tensor.resolve_conj().resolve_neg();
  if (tensor.use_count() != 1 || tensor.requires_grad()) {
    // A Python object counts as a holder of the tensor; it dies with our reference unless Python keeps it, and then the
    // storage has a second holder.
    tensor = tensor_in_storage(tensor.storage(), tensor.scalar_type(), tensor.sizes(), tensor.strides(),
                               tensor.storage_offset());
  }
  return tensor.storage().use_count() == 1 ? tensor : tensor.clone();
}

}  // namespace npugraph::bridge
