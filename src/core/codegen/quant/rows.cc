// SPDX-License-Identifier: Apache-2.0
#include <cstring>
#include <vector>

#include "base/error.h"
#include "codegen/matmul/code.h"
#include "codegen/quant/code.h"
#include "codegen/quant/task.h"
#include "codegen/task/work_items.h"

namespace npugraph::codegen {
namespace {

class QuantRows {
 public:
  QuantRows(loop::BlockType type, const target::Target& target)
      : target_(target), format_(loop::format_of(type)), dequantize_(dequantize_code(target, type)) {}

  bool fits(const ng_call& call) const {
    if (call.num_buffers != 3) return false;
    const ng_buffer& blocks = call.buffers[0];
    const ng_buffer& y = call.buffers[2];
    if (blocks.rank != 2 || blocks.dtype != NG_U8 || call.buffers[1].dtype != NG_I64 || y.rank < 1) return false;
    const int64_t k = y.sizes[y.rank - 1];
    return k % format_.elements == 0 && blocks.sizes[1] == k / format_.elements * format_.bytes;
  }

  ng_status run(const ng_call& call) const {
    const ng_buffer& blocks = call.buffers[0];
    const std::vector<int64_t> rows = indices(call.buffers[1]);
    for (const int64_t row : rows) {
      if (row >= 0 && row < blocks.sizes[0]) continue;
      call.host->set_error(call.host, "index out of range in self");
      return NG_ERROR;
    }
    const ng_buffer& y = call.buffers[2];
    const int64_t k = y.sizes[y.rank - 1];
    const auto dtype = static_cast<DType>(y.dtype);
    StoreSumsFunction* store = dtype == DType::kF32 ? nullptr : store_sums_code(target_, dtype);
    for_ranges(*call.host, static_cast<int64_t>(rows.size()), k, [&](int64_t first, int64_t last) {
      // Behind the last element a whole vector may be read.
      std::vector<float> values(store == nullptr ? 0 : static_cast<size_t>(k) + 16);
      for (int64_t i = first; i < last; ++i) {
        const char* from = static_cast<const char*>(blocks.data) + rows[static_cast<size_t>(i)] * blocks.strides[0];
        char* to = static_cast<char*>(y.data) + i * k * size_of(dtype);
        dequantize_(from, k / format_.elements, store == nullptr ? reinterpret_cast<float*>(to) : values.data());
        if (store != nullptr) store(values.data(), k, 1, k, to, 0);
      }
    });
    return NG_OK;
  }

 private:
  // The indices in row-major order, whatever their strides.
  static std::vector<int64_t> indices(const ng_buffer& index) {
    int64_t count = 1;
    for (int32_t d = 0; d < index.rank; ++d) count *= index.sizes[d];
    std::vector<int64_t> all(static_cast<size_t>(count));
    for (int64_t i = 0; i < count; ++i) {
      int64_t rest = i, offset = 0;
      for (int32_t d = index.rank; d-- > 0; rest /= index.sizes[d]) offset += rest % index.sizes[d] * index.strides[d];
      all[static_cast<size_t>(i)] = static_cast<const int64_t*>(index.data)[offset];
    }
    return all;
  }

  target::Target target_;
  loop::BlockFormat format_;
  DequantizeFunction* dequantize_;
};

}  // namespace

ng_task make_quant_rows(loop::BlockType type, const target::Target& target) {
  return {
      .context = new QuantRows(type, target),
      .run = [](void* context, void*, ng_call* call) { return static_cast<const QuantRows*>(context)->run(*call); },
      .bind = [](void* context, const ng_call* call,
                 void**) { return static_cast<const QuantRows*>(context)->fits(*call) ? NG_OK : NG_ERROR; },
      .unbind = [](void*, void*) {},
      .workspace = nullptr,
      .destroy = [](void* context) { delete static_cast<QuantRows*>(context); },
  };
}

}  // namespace npugraph::codegen
