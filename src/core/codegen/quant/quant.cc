// SPDX-License-Identifier: Apache-2.0
#include "codegen/quant/quant.h"

#include <cstring>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "base/error.h"
#include "codegen/matmul/code.h"
#include "codegen/quant/quant_code.h"
#include "codegen/task/work_items.h"
#include "loop/text.h"

namespace npugraph::codegen {

namespace {

constexpr std::string_view kHead = "npugraph.quant ";
constexpr std::string_view kVersion = "1";

std::vector<std::string> words_of(std::string_view line) {
  std::istringstream in{std::string(line)};
  std::vector<std::string> words;
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}

// Returns nullopt if the words name no such product.
std::optional<Int4LinearSpec> packed_product(const std::vector<std::string>& words) {
  const auto packing = words.size() == 6 ? loop::int4_packing(words[3], words[4]) : std::nullopt;
  for (const int64_t group : {32, 64, 128, 256}) {
    if (packing && words[5] == std::to_string(group))
      return Int4LinearSpec{.packing = *packing, .group = group, .epilogue = {}};
  }
  return std::nullopt;
}

}  // namespace

bool is_quant_text(std::string_view text) { return text.starts_with(kHead); }

ng_task make_quant(std::string_view text, const target::Target& target, RowCount rows) {
  const std::string_view line = text.substr(0, text.find('\n'));
  const std::vector<std::string> words = words_of(line);
  const auto fail = [&] { throw UserError(cat("no work on quantised weights: ", line)); };
  if (!is_quant_text(text) || words.size() < 4 || words[1] != kVersion) fail();
  const auto epilogue = [&] {
    if (line.size() == text.size()) fail();
    return loop::parse(std::string(text.substr(line.size() + 1)), "the end of a quantised product");
  };
  if (words[2] == "packed") {
    auto spec = packed_product(words);
    if (!spec) fail();
    spec->epilogue = epilogue();
    return make_int4_linear(*spec, target, rows);
  }
  const auto type = loop::block_type(words[3]);
  if (!type) throw UserError(cat("unknown type of blocks: ", words[3]));
  if (words[2] == "rows" && words.size() == 4) return make_quant_rows(*type, target);
  const bool by_codes = words.size() == 5 && words[4] == "int8";
  if (words[2] != "linear" || (words.size() != 4 && !by_codes)) fail();
  return make_quant_linear({.type = *type, .by_codes = by_codes, .epilogue = epilogue()}, target, rows);
}

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
