// SPDX-License-Identifier: Apache-2.0
// Products with weights as torch packs them in 4 bits (loop/int4.h). With few rows of x, codes are multiplied as they
// are read. With many, a work item unpacks the weights of a block to panels of f32 in its cache, for tiles.
#include <algorithm>
#include <cstring>
#include <optional>
#include <vector>

#include "base/error.h"
#include "codegen/matmul/code.h"
#include "codegen/matmul/copy.h"
#include "codegen/quant/quant.h"
#include "codegen/quant/quant_code.h"
#include "codegen/task/planned_task.h"
#include "codegen/task/work_items.h"

namespace npugraph::codegen {
namespace {

constexpr int64_t kMostInt4Columns = 64;  // of a block
constexpr int64_t kUnpackedSteps = 512;   // whole groups, unpacked at a time
constexpr int64_t kMostStreamed = 20;     // rows of x, beyond which tiles are faster; more than those of a tile
constexpr int64_t kMostItemRows = 252;    // of a work item: whole tiles

// The plan by which a product of given sizes is computed.
struct Int4Plan {
  int64_t m = 0, n = 0, k = 0;
  DType type = DType::kF32;         // of x, scales and zeros
  int64_t x_row = 0, x_column = 0;  // strides in bytes
  int64_t columns = 0, group = 0;   // of a block, of a scale
  bool streams = false;             // matrix-vector products
  bool dense_x = false;             // x is first copied to rows of f32
  TileShape shape;
  int64_t block_rows = 1;

  // Number of matrix-vector products, and rows of each. The last one may begin earlier and compute some rows again.
  int64_t passes() const { return divide_up(m, kMostVectors); }
  int64_t vectors() const { return std::max<int64_t>(divide_up(m, std::max<int64_t>(passes(), 1)), 1); }
  int64_t groups() const { return k / group; }
  int64_t rest() const { return n % columns; }  // of the last block
  int64_t blocks() const { return divide_up(n, columns); }
  int64_t row_blocks() const { return divide_up(m, block_rows); }
  int64_t dense_bytes() const { return dense_x ? round_up(m * k * 4, 64) : 0; }
  int64_t workspace() const { return dense_bytes() + (streams ? m * groups() * 4 : 0); }
};

// Arrays: for whole blocks, then for the rest.
struct Int4Code {
  Int4MatvecFunction* matvec[2] = {nullptr, nullptr};
  Int4UnpackFunction* unpack[2] = {nullptr, nullptr};
  TileFunction* tile = nullptr;
  WidenFunction* widen = nullptr;  // x that is not f32
  EpilogueFunction* epilogue = nullptr;
};

bool is_contiguous(const ng_buffer& buffer) {
  int64_t stride = 1;
  for (int32_t d = buffer.rank; d-- > 0; stride *= buffer.sizes[d]) {
    if (buffer.sizes[d] > 1 && buffer.strides[d] != stride) return false;
  }
  return true;
}

std::optional<Int4Plan> make_int4_plan(const Int4LinearSpec& spec, const target::Target& target, const ng_call& call) {
  if (call.num_buffers != 2 + spec.epilogue.buffers.size()) return std::nullopt;
  const ng_buffer& x = call.buffers[0];
  const ng_buffer& codes = call.buffers[1];
  const ng_buffer& scales = call.buffers[2];
  if (x.rank != 2 || codes.rank != 2 || scales.rank != 3 || codes.dtype != NG_U8 || scales.dtype != x.dtype)
    return std::nullopt;
  Int4Plan plan{.m = x.sizes[0], .n = codes.sizes[0], .k = x.sizes[1], .type = static_cast<DType>(x.dtype)};
  plan.group = spec.group;
  plan.columns = spec.packing.columns;
  const bool fits = plan.k % plan.group == 0 && plan.n % 16 == 0 && codes.sizes[1] == plan.k / 2 &&
                    scales.sizes[0] == plan.groups() && scales.sizes[1] == plan.n && scales.sizes[2] == 2;
  if (!fits || !is_contiguous(codes) || !is_contiguous(scales)) return std::nullopt;
  plan.x_row = x.strides[0] * size_of(plan.type);
  plan.x_column = x.strides[1] * size_of(plan.type);
  plan.streams = plan.m <= kMostStreamed;
  plan.shape = tile_shape(target, TileKind::kF32);
  plan.dense_x = plan.type != DType::kF32 || plan.x_column != 4;
  const int64_t most = kMostItemRows / plan.shape.rows;
  plan.block_rows = (plan.blocks() < 8 ? std::min<int64_t>(most, 4) : most) * plan.shape.rows;
  return plan;
}

Int4Code find_int4_code(const Int4LinearSpec& spec, const target::Target& target, const Int4Plan& plan) {
  Int4Code code;
  code.widen = widen_code(target, plan.type, DType::kF32);
  const Int4Block kinds[2] = {{plan.n < plan.columns ? 0 : spec.packing.columns, spec.packing.halves, plan.type},
                              {static_cast<int>(plan.rest()), false, plan.type}};
  for (int i = 0; i < 2; ++i) {
    if (kinds[i].columns == 0) continue;
    if (plan.streams)
      code.matvec[i] = int4_matvec_code(target, kinds[i], static_cast<int>(plan.vectors()));
    else
      code.unpack[i] = int4_unpack_code(target, kinds[i], plan.shape.columns());
  }
  if (!plan.streams) code.tile = tile_code(target, TileKind::kF32, plan.shape);
  return code;
}

// The sum of `count` elements, in an order that depends on nothing else.
float sum_of(const float* x, int64_t count) {
  constexpr int64_t kParts = 8;
  double parts[kParts] = {};
  for (int64_t i = 0; i < count; i += kParts) {
    for (int64_t p = 0; p < kParts; ++p) parts[p] += static_cast<double>(x[i + p]);
  }
  for (int64_t p = 1; p < kParts; ++p) parts[0] += parts[p];
  return static_cast<float>(parts[0]);
}

class Int4Run {
 public:
  Int4Run(const Int4Plan& plan, const Int4Code& code, const ng_call& call)
      : p_(plan),
        code_(code),
        call_(call),
        x_(static_cast<const char*>(call.buffers[0].data)),
        x_row_(p_.x_row),
        codes_(static_cast<const char*>(call.buffers[1].data)),
        scales_(static_cast<const char*>(call.buffers[2].data)),
        sums_(reinterpret_cast<float*>(static_cast<char*>(call.workspace) + p_.dense_bytes())) {
    for (uint32_t i = 3; i < call.num_buffers; ++i) ends_.push_back(call.buffers[i].data);
  }

  void run() {
    if (p_.m == 0 || p_.n == 0) return;
    prepare_x();
    const int64_t rows = p_.streams ? p_.m : std::min(p_.m, p_.block_rows);
    const int64_t row_blocks = p_.streams ? 1 : p_.row_blocks();
    for_items(*call_.host, p_.blocks() * row_blocks, rows * p_.columns * p_.k, [&](int64_t item) {
      const int64_t column = item / row_blocks * p_.columns;
      p_.streams ? stream(column) : multiply(item % row_blocks * p_.block_rows, column);
    });
  }

 private:
  // Whether the block that begins at `column` is not a whole one.
  bool is_rest(int64_t column) const { return p_.n - column < p_.columns; }
  int64_t width(int64_t column) const { return std::min(p_.columns, p_.n - column); }
  // Bytes from the scales of one group to those of the next.
  int64_t scales_stride() const { return p_.n * 2 * size_of(p_.type); }
  const char* codes(int64_t column, int64_t step) const {
    return codes_ + column * p_.k / 2 + step * width(column) / 2;
  }
  const char* scales(int64_t column, int64_t step) const {
    return scales_ + step / p_.group * scales_stride() + column * 2 * size_of(p_.type);
  }
  const float* x_at(int64_t row, int64_t step) const {
    return reinterpret_cast<const float*>(x_ + row * x_row_ + step * 4);
  }

  // Makes rows of f32, and the sums of their groups.
  void prepare_x() {
    const char* from = x_;
    const int64_t from_row = x_row_;
    if (p_.dense_x) {
      x_ = static_cast<const char*>(call_.workspace);
      x_row_ = p_.k * 4;
    }
    if (!p_.dense_x && !p_.streams) return;
    for_items(*call_.host, p_.m, p_.k, [&](int64_t row) {
      if (p_.dense_x) {
        void* to = static_cast<char*>(call_.workspace) + row * x_row_;
        copy_row(from + row * from_row, p_.type, p_.x_column, code_.widen, p_.k, to, DType::kF32, p_.k);
      }
      for (int64_t g = 0; p_.streams && g < p_.groups(); ++g)
        sums_[row * p_.groups() + g] = sum_of(x_at(row, g * p_.group), p_.group);
    });
  }

  void stream(int64_t column) const {
    alignas(64) float acc[kMostVectors * kMostInt4Columns + 16];
    for (int64_t pass = 0; pass < p_.passes(); ++pass) {
      const int64_t row = pass * p_.vectors(), first = std::min(row, p_.m - p_.vectors());
      const int64_t end = std::min(row + p_.vectors(), p_.m);
      code_.matvec[is_rest(column)](codes(column, 0), scales(column, 0), scales_stride(), p_.groups(), p_.group,
                                    x_at(first, 0), x_row_, sums_ + first * p_.groups(), p_.groups(), acc,
                                    kMostInt4Columns);
      code_.epilogue(acc + (row - first) * kMostInt4Columns, kMostInt4Columns, end - row, width(column), row, column,
                     ends_.data(), call_.scalars);
    }
  }

  // The first row of the tile at `row`. A last tile that is not whole starts earlier and computes some rows again.
  int64_t tile_row(int64_t row) const { return std::min(row, p_.m - p_.shape.rows); }

  // acc: [panel][tile][row of C][column of C].
  void multiply(int64_t first_row, int64_t column) const {
    alignas(64) float acc[kMostItemRows * kMostInt4Columns + 16];
    alignas(64) float panels[kUnpackedSteps * kMostInt4Columns];
    const int64_t panel_columns = p_.shape.columns();
    const int64_t rows = std::min(p_.block_rows, p_.m - first_row);
    const int64_t tiles = divide_up(rows, p_.shape.rows), count = divide_up(width(column), panel_columns);
    const auto acc_of = [&](int64_t panel, int64_t tile) {
      return acc + (panel * tiles + tile) * p_.shape.rows * panel_columns;
    };
    int64_t first = 0;
    do {
      const int64_t steps = std::min(kUnpackedSteps, p_.k - first);
      code_.unpack[is_rest(column)](codes(column, first), scales(column, first), scales_stride(), steps / p_.group,
                                    p_.group, panels, steps * panel_columns * 4);
      for (int64_t tile = 0; tile < tiles; ++tile) {
        const float* x = x_at(tile_row(first_row + tile * p_.shape.rows), first);
        for (int64_t panel = 0; panel < count; ++panel)
          code_.tile(panels + panel * steps * panel_columns, x, x_row_, kCutBytes, steps, acc_of(panel, tile),
                     panel_columns * 4, first > 0, x, 0, 0);
      }
      first += steps;
    } while (first < p_.k);
    for (int64_t tile = 0; tile < tiles; ++tile) {
      const int64_t row = first_row + tile * p_.shape.rows, again = row - tile_row(row);
      const int64_t end = std::min<int64_t>(row + p_.shape.rows, first_row + rows);
      for (int64_t panel = 0; panel < count; ++panel) {
        const int64_t at = panel * panel_columns;
        code_.epilogue(acc_of(panel, tile) + again * panel_columns, panel_columns, end - row,
                       std::min(panel_columns, width(column) - at), row, column + at, ends_.data(), call_.scalars);
      }
    }
  }

  const Int4Plan& p_;
  const Int4Code& code_;
  const ng_call& call_;
  const char* x_;
  int64_t x_row_;
  const char* codes_;
  const char* scales_;
  float* sums_;  // of the rows of x, by group
  std::vector<void*> ends_;
};

struct Int4Planner {
  Int4LinearSpec spec;
  std::shared_ptr<const EpilogueCode> end;
  target::Target target;

  std::optional<Int4Plan> plan(const ng_call& call) const { return make_int4_plan(spec, target, call); }
  Int4Code code(const Int4Plan& plan) const {
    Int4Code code = find_int4_code(spec, target, plan);
    code.epilogue = end->function;
    return code;
  }
  void prepare(Int4Plan plan) const {
    for (plan.m = 1; plan.m <= kMostStreamed + 1; ++plan.m) {
      plan.streams = plan.m <= kMostStreamed;
      find_int4_code(spec, target, plan);
    }
  }
  static void run(const Int4Plan& plan, const Int4Code& code, const ng_call& call) { Int4Run(plan, code, call).run(); }
};

}  // namespace

ng_task make_int4_linear(const Int4LinearSpec& spec, const target::Target& target, RowCount rows) {
  return PlannedTask<Int4Planner>::make({spec, epilogue_code(target, spec.epilogue), target}, rows);
}

}  // namespace npugraph::codegen
