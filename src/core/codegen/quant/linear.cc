// SPDX-License-Identifier: Apache-2.0
// Products with weights in blocks. With few rows of x, these are matrix-vector products that stream the blocks; a
// single row is converted to digits if the target multiplies them. With many rows, a work item converts some rows of
// blocks at a time to f32 in its cache, for tiles.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <vector>

#include "base/error.h"
#include "codegen/matmul/code.h"
#include "codegen/matmul/copy.h"
#include "codegen/quant/digits.h"
#include "codegen/quant/quant.h"
#include "codegen/quant/quant_code.h"
#include "codegen/task/planned_task.h"
#include "codegen/task/work_items.h"

namespace npugraph::codegen {
namespace {

constexpr int64_t kColumns = 48;  // of a work item of tiles: whole tiles, and whole vectors of C
constexpr int64_t kMostRows = 128;
constexpr int64_t kWeightSteps = 512;          // elements of a row of weights at a time, whole blocks
constexpr int64_t kStreamColumns = 16;         // of a work item of matrix-vector products
constexpr int64_t kCostOfElement = 32;         // to copy and round one, in multiplications
constexpr int64_t kMostStreamedColumns = 512;  // of several such items that are computed together

// The plan by which a product of given sizes is computed.
struct LinearPlan {
  int64_t m = 0, n = 0, k = 0;
  DType x_type = DType::kF32;
  int64_t x_row = 0, x_column = 0, w_row = 0;  // strides in bytes
  bool streams = false;
  int digits = 0;        // of x in matrix-vector products; 0: x is f32
  bool by_16 = false;    // 16 rows of weights at a time
  bool dense_x = false;  // x is first copied to rows of f32
  TileShape shape;
  loop::BlockType type = loop::BlockType::kQ4_0;
  bool rounds = false;  // x to 8 bits

  int64_t panels() const { return (m + shape.columns() - 1) / shape.columns(); }
  int64_t block_rows() const { return kMostRows / shape.columns() * shape.columns(); }
  int64_t dense_bytes() const { return dense_x ? (m * k * 4 + 63) / 64 * 64 : 0; }
  int64_t workspace() const {
    return dense_bytes() + (streams ? m * bytes_of_digits() : panels() * shape.columns() * k * 4);
  }
  int64_t bytes_of_digits() const { return digits == 0 ? 0 : digit_layout(type, digits).bytes_of(k); }
};

struct LinearCode {
  RowsMatvecFunction* matvec = nullptr;
  DigitsFunction* digits = nullptr;
  DequantizeFunction* dequantize = nullptr;
  TileFunction* tile = nullptr;
  TransposeFunction* transpose = nullptr;
  WidenFunction* widen = nullptr;  // x that is not f32
  EpilogueFunction* epilogue = nullptr;
};

// Sets the fields that follow from the number of rows.
void choose_form(const QuantLinearSpec& spec, const target::Target& target, LinearPlan& plan) {
  plan.streams = plan.m <= kMostVectors;
  plan.by_16 = plan.m == 1 && plan.n >= kRowsAtOnce && plan.w_row < int64_t{1} << 27 && has_quant_matvec16(target);
  const bool by_digits = plan.streams && target.int8_dot && (plan.by_16 || spec.by_codes);
  plan.digits = !by_digits ? 0 : spec.by_codes ? 1 : 3;
  plan.dense_x = plan.x_type != DType::kF32 || plan.x_column != 4 || (plan.rounds && plan.digits == 0);
  plan.shape = tile_shape(target, TileKind::kF32);
  if (plan.m <= plan.shape.lanes) plan.shape = narrow(plan.shape);
}

std::optional<LinearPlan> make_linear_plan(const QuantLinearSpec& spec, const target::Target& target,
                                           const ng_call& call) {
  if (call.num_buffers != 1 + spec.epilogue.buffers.size()) return std::nullopt;
  const ng_buffer& x = call.buffers[0];
  const ng_buffer& w = call.buffers[1];
  if (x.rank != 2 || w.rank != 2 || w.dtype != NG_U8 || (w.sizes[1] > 1 && w.strides[1] != 1)) return std::nullopt;
  const loop::BlockFormat& format = loop::format_of(spec.type);
  LinearPlan plan{.m = x.sizes[0], .n = w.sizes[0], .k = x.sizes[1], .x_type = static_cast<DType>(x.dtype)};
  if (plan.x_type != DType::kF32 && plan.x_type != DType::kBF16 && plan.x_type != DType::kF16) return std::nullopt;
  if (plan.k % format.elements != 0 || w.sizes[1] != plan.k / format.elements * format.bytes) return std::nullopt;
  plan.x_row = x.strides[0] * size_of(plan.x_type);
  plan.x_column = x.strides[1] * size_of(plan.x_type);
  plan.w_row = w.strides[0];
  plan.type = spec.type;
  plan.rounds = spec.by_codes;
  choose_form(spec, target, plan);
  return plan;
}

LinearCode find_linear_code(const QuantLinearSpec& spec, const target::Target& target, const LinearPlan& plan) {
  LinearCode code;
  code.widen = widen_code(target, plan.x_type, DType::kF32);
  if (plan.streams) {
    const int vectors = static_cast<int>(std::max<int64_t>(plan.m, 1));
    code.matvec = plan.by_16 ? quant_matvec16_code(target, spec.type, plan.digits)
                             : quant_matvec_code(target, spec.type, vectors, plan.digits > 0);
    if (plan.digits > 0) code.digits = digits_code(target, spec.type, plan.digits);
  } else {
    code.dequantize = dequantize_code(target, spec.type);
    code.tile = tile_code(target, TileKind::kF32, plan.shape);
    code.transpose = transpose_code(target);
  }
  return code;
}

// Rounds the elements of a group to 8 bits.
void round_group(float* x) {
  float most = 0;
  for (int i = 0; i < kGroup; ++i) most = std::max(most, std::abs(x[i]));
  const float inverse = most > 0 ? 127 / most : 0;
  for (int i = 0; i < kGroup; ++i) x[i] = std::nearbyint(x[i] * inverse) * (most / 127);
}

class LinearRun {
 public:
  LinearRun(const LinearPlan& plan, const LinearCode& code, const ng_call& call)
      : p_(plan),
        code_(code),
        format_(loop::format_of(plan.type)),
        call_(call),
        x_(static_cast<const char*>(call.buffers[0].data)),
        x_row_(p_.x_row),
        w_(static_cast<const char*>(call.buffers[1].data)),
        packed_(static_cast<char*>(call.workspace) + p_.dense_bytes()) {
    for (uint32_t i = 2; i < call.num_buffers; ++i) ends_.push_back(call.buffers[i].data);
  }

  void run() {
    if (p_.m == 0 || p_.n == 0) return;
    if (p_.dense_x) make_x_dense();
    if (p_.digits > 0) make_digits();
    if (p_.streams) return stream();
    pack_x();
    const int64_t row_blocks = (p_.m + p_.block_rows() - 1) / p_.block_rows();
    const int64_t column_blocks = (p_.n + kColumns - 1) / kColumns;
    for_items(*call_.host, row_blocks * column_blocks, std::min(p_.m, p_.block_rows()) * kColumns * p_.k,
              [&](int64_t item) { multiply(item % row_blocks * p_.block_rows(), item / row_blocks * kColumns); });
  }

 private:
  void make_x_dense() {
    const char* from = x_;
    const int64_t from_row = x_row_;
    x_ = static_cast<const char*>(call_.workspace);
    x_row_ = p_.k * 4;
    for_items(*call_.host, p_.m, p_.k * kCostOfElement, [&](int64_t row) {
      auto* dense = reinterpret_cast<float*>(static_cast<char*>(call_.workspace) + row * p_.k * 4);
      copy_row(from + row * from_row, p_.x_type, p_.x_column, code_.widen, p_.k, dense, DType::kF32, p_.k);
      for (int64_t i = 0; i < p_.k && p_.rounds && p_.digits == 0; i += kGroup) round_group(dense + i);
    });
  }

  void make_digits() {
    for (int64_t row = 0; row < p_.m; ++row) {
      const auto* elements = reinterpret_cast<const float*>(x_ + row * x_row_);
      code_.digits(elements, p_.k / kGroup, packed_ + row * p_.bytes_of_digits());
    }
    x_ = packed_;
    x_row_ = p_.bytes_of_digits();
  }

  void stream() const {
    const int64_t items = (p_.n + kStreamColumns - 1) / kStreamColumns;
    for_ranges(*call_.host, items, p_.m * kStreamColumns * p_.k, [&](int64_t first, int64_t last) {
      const int64_t end = std::min(last * kStreamColumns, p_.n);
      for (int64_t column = first * kStreamColumns; column < end; column += kMostStreamedColumns)
        stream_columns(column, std::min(kMostStreamedColumns, end - column));
    });
  }

  void stream_columns(int64_t column, int64_t count) const {
    alignas(64) float acc[kMostVectors * kMostStreamedColumns + 16];
    // If there are too few columns for the code, some columns before them are computed too.
    const int64_t more = p_.by_16 ? std::max(kRowsAtOnce - count, int64_t{0}) : 0;
    code_.matvec(w_ + (column - more) * p_.w_row, p_.w_row, count + more, x_, x_row_, p_.k, acc, kMostStreamedColumns);
    code_.epilogue(acc + more, kMostStreamedColumns, p_.m, count, 0, column, ends_.data(), call_.scalars);
  }

  char* panel(int64_t number) const { return packed_ + number * p_.shape.columns() * p_.k * 4; }

  void pack_x() const {
    const int64_t lanes = p_.shape.lanes;
    for_items(*call_.host, p_.panels(), p_.shape.columns() * p_.k, [&](int64_t number) {
      for (int64_t at = 0; at < p_.shape.columns(); at += lanes) {
        const int64_t row = number * p_.shape.columns() + at;
        const int64_t count = std::min(lanes, p_.m - row);
        if (count <= 0) return;
        code_.transpose(x_ + row * x_row_, x_row_, count, p_.k, panel(number) + at * 4, p_.shape.columns() * 4);
      }
    });
  }

  // Converts elements [first, first + steps) of kColumns rows of weights from `column` on; missing rows repeat the last
  // one.
  void dequantize(int64_t column, int64_t first, int64_t steps, float* to) const {
    for (int64_t c = 0; c < kColumns; ++c) {
      const int64_t row = std::min(column + c, p_.n - 1);
      const char* blocks = w_ + row * p_.w_row + first / format_.elements * format_.bytes;
      code_.dequantize(blocks, steps / format_.elements, to + c * steps);
    }
  }

  // acc: [panel][column of C][row of C].
  void multiply(int64_t row, int64_t column) const {
    alignas(64) float acc[kMostRows * kColumns];
    alignas(64) float weights[kColumns * kWeightSteps];
    const int64_t width = p_.shape.columns();
    const int64_t first_panel = row / width;
    const int64_t end_panel = (std::min(row + p_.block_rows(), p_.m) + width - 1) / width;
    int64_t first = 0;
    do {
      const int64_t steps = std::min(kWeightSteps, p_.k - first);
      dequantize(column, first, steps, weights);
      for (int64_t c = 0; c < kColumns; c += p_.shape.rows) {
        for (int64_t number = first_panel; number < end_panel; ++number) {
          float* to = acc + ((number - first_panel) * kColumns + c) * width;
          code_.tile(panel(number) + first * width * 4, weights + c * steps, steps * 4, kCutBytes, steps, to, width * 4,
                     first > 0, weights, 0, 0);
        }
      }
      first += steps;
    } while (first < p_.k);
    for (int64_t number = first_panel; number < end_panel; ++number)
      write(number, column, acc + (number - first_panel) * kColumns * width);
  }

  void write(int64_t number, int64_t column, const float* acc) const {
    alignas(64) float rows[32 * kColumns + 16];
    const int64_t width = p_.shape.columns();
    code_.transpose(acc, width * 4, kColumns, width, rows, kColumns * 4);
    const int64_t row = number * width;
    code_.epilogue(rows, kColumns, std::min(width, p_.m - row), std::min(kColumns, p_.n - column), row, column,
                   ends_.data(), call_.scalars);
  }

  const LinearPlan& p_;
  const LinearCode& code_;
  const loop::BlockFormat& format_;
  const ng_call& call_;
  const char* x_;
  int64_t x_row_;
  const char* w_;
  char* packed_;
  std::vector<void*> ends_;
};

struct LinearPlanner {
  QuantLinearSpec spec;
  std::shared_ptr<const EpilogueCode> end;
  target::Target target;

  std::optional<LinearPlan> plan(const ng_call& call) const { return make_linear_plan(spec, target, call); }
  LinearCode code(const LinearPlan& plan) const {
    LinearCode code = find_linear_code(spec, target, plan);
    code.epilogue = end->function;
    return code;
  }
  void prepare(const LinearPlan& plan) const {
    const auto make = [&](int64_t m) {
      LinearPlan other = plan;
      other.m = m;
      choose_form(spec, target, other);
      find_linear_code(spec, target, other);
    };
    for (int64_t m = 1; m <= kMostVectors; ++m) make(m);
    make(narrow(tile_shape(target, TileKind::kF32)).columns());
    make(kMostVectors + tile_shape(target, TileKind::kF32).columns());
  }
  static void run(const LinearPlan& plan, const LinearCode& code, const ng_call& call) {
    LinearRun(plan, code, call).run();
  }
};

}  // namespace

ng_task make_quant_linear(const QuantLinearSpec& spec, const target::Target& target, RowCount rows) {
  return PlannedTask<LinearPlanner>::make({spec, epilogue_code(target, spec.epilogue), target}, rows);
}

}  // namespace npugraph::codegen
