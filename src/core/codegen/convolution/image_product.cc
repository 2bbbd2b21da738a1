// SPDX-License-Identifier: Apache-2.0
#include "codegen/convolution/image_product.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "codegen/matmul/copy.h"
#include "codegen/task/work_items.h"

namespace npugraph::codegen {
namespace {

constexpr int64_t kMostItemSums = 512 * 32;  // of a work item
constexpr int64_t kPackedBytes = 64 << 10;   // of a part of a panel
constexpr int64_t kUsualSteps = 256;         // of a part of the sums
constexpr int64_t kSharingTiles = 2;         // most tiles of rows that share the panels of a strip in a work item
constexpr int64_t kWidenedBytes = kSharingTiles * kAmxRows * kUsualSteps * 4;
constexpr int64_t kMostShared = 16;                // panels of a strip that are packed first
constexpr int64_t kStripBytes = int64_t{4} << 20;  // of planes, unless kMostShared panels need more

static_assert(kMostItemSums >= kMostShared * kAmxRows * 32, "a tile of each panel that a strip shares");

class ImageProductRun {
 public:
  ImageProductRun(const ImageProductPlan& plan, const ImageProductCode& code, const ng_call& call)
      : p_(plan),
        code_(code),
        call_(call),
        weights_(static_cast<const char*>(call.buffers[0].data)),
        weight_stride_(plan.k * size_of(plan.dtype)),
        weights_of_group_(plan.m * weight_stride_),
        step_bytes_(plan.widens_weights ? size_of(plan.dtype) : 4),
        planes_(static_cast<char*>(call.workspace) + plan.weight_bytes()),
        packed_(planes_ + plan.strip_bytes()) {
    for (uint32_t i = 2; i < call.num_buffers; ++i) ends_.push_back(call.buffers[i].data);
    for (uint32_t i = 2; i + 1 < call.num_buffers && code.epilogue != nullptr; ++i) {
      if (lies_as(call.buffers[i], call.buffers[call.num_buffers - 1])) read_with_result_.push_back(call.buffers[i]);
    }
  }

  void run() {
    if (p_.m == 0 || p_.n <= 0) return;
    if (p_.copies_weights) copy_weights();
    for (int64_t batch = 0; batch < p_.batches; ++batch) {
      for (int64_t group = 0; group < p_.groups; ++group) {
        for (int64_t panel = 0; panel < p_.panels(); panel += p_.strip_panels) run_strip(batch, group, panel);
      }
    }
  }

 private:
  // A strip of one group of one image.
  struct Strip {
    int64_t batch, group;
    int64_t panel, panels;
    int64_t row;  // first row of the result in the planes
    const char* pixels;
  };

  // Rows of weights in the type that is multiplied; stride in bytes.
  struct Rows {
    const char* first;
    int64_t stride;
  };

  void copy_weights() {
    const int64_t rows = p_.weight_rows(), size = size_of(p_.dtype), row_bytes = p_.steps * 4;
    auto* to = static_cast<char*>(call_.workspace);
    for_items(*call_.host, p_.groups * rows, p_.k, [&](int64_t item) {
      const int64_t row = std::min(item % rows, p_.m - 1);
      const char* from = static_cast<const char*>(call_.buffers[0].data) + (item / rows * p_.m + row) * p_.k * size;
      copy_row(from, p_.dtype, size, code_.widen, p_.k, to + item * row_bytes, p_.multiplied(),
               row_bytes / size_of(p_.multiplied()));
    });
    weights_ = to;
    weight_stride_ = row_bytes;
    weights_of_group_ = rows * row_bytes;
  }

  void run_strip(int64_t batch, int64_t group, int64_t panel) {
    const char* image = static_cast<const char*>(call_.buffers[1].data) + batch * p_.batch_stride +
                        group * p_.planes.channels * p_.planes.image.strides[0];
    Strip strip{batch, group, panel, std::min(p_.strip_panels, p_.panels() - panel), 0, image};
    if (!p_.planes.in_place) {
      strip.row = panel * p_.shape.columns() / p_.out[1];
      strip.pixels = planes_;
      const int64_t channel = p_.planes.channel_bytes;
      for_items(*call_.host, p_.planes.copied_channels(), channel,
                [&](int64_t c) { copy_channel(p_.planes, image, c, strip.row, planes_ + c * channel, code_.copy); });
    }
    if (p_.shares_panels) pack_strip(strip);
    // In this order of the items, threads work on the same panels at a time.
    const int64_t items = p_.row_blocks() * divide_up(strip.panels, p_.block_panels);
    const int64_t columns = p_.shape.columns() * p_.block_panels;
    for_items_by_turns(*call_.host, items, std::min(p_.block_rows, p_.m) * p_.k * columns, [&](int64_t item) {
      const int64_t row = item % p_.row_blocks() * p_.block_rows, panel = item / p_.row_blocks() * p_.block_panels;
      multiply(strip, row, std::min(p_.block_rows, p_.m - row), panel, std::min(p_.block_panels, strip.panels - panel));
    });
  }

  // The last panel has one vector per step if that holds all of its columns.
  int64_t columns_of(const Strip& strip, int64_t number) const {
    const int64_t left = p_.n - (strip.panel + number) * p_.shape.columns();
    return left <= p_.shape.lanes ? p_.shape.lanes : p_.shape.columns();
  }

  char* shared_panel(const Strip& strip, int64_t number, int64_t first) const {
    return packed_ + number * p_.panel_bytes() + first * columns_of(strip, number) * 4;
  }

  void pack_strip(const Strip& strip) {
    constexpr int64_t kSteps = 128;
    const int64_t parts = divide_up(p_.steps, kSteps);
    for_items(*call_.host, strip.panels * parts, 4 * kSteps * p_.shape.columns(), [&](int64_t item) {
      const int64_t first = item % parts * kSteps, number = item / parts;
      pack(strip, number, first, std::min(kSteps, p_.steps - first), shared_panel(strip, number, first));
    });
  }

  void pack(const Strip& strip, int64_t number, int64_t first, int64_t steps, char* to) const {
    const int64_t columns = columns_of(strip, number), column = (strip.panel + number) * p_.shape.columns();
    const PanelPlace place{column - strip.row * p_.out[1], std::min(columns, p_.n - column), p_.out[1], columns};
    if (p_.planes.image.taps() != 1 || p_.planes.pitch != p_.out[1])
      return pack_panel(p_.planes, strip.pixels, place, p_.kind, first, steps, gather(columns), to);
    // The pixels of a channel are a row of a matrix.
    const bool pairs = p_.kind == TileKind::kBf16Pairs;
    const DType dtype = p_.planes.dtype;
    const int64_t size = size_of(dtype), stride = p_.planes.channel_bytes, elements = pairs ? 2 : 1;
    const char* from = strip.pixels + place.column * size;
    if (place.count == p_.shape.columns() && (first + steps) * elements <= p_.k)
      return code_.interleave(from + first * elements * stride, stride, steps, to);
    if (pairs) return pack_pairs(from, stride, size, place.count, p_.k, first, steps, columns, to);
    WidenFunction* widen = p_.planes.in_place ? code_.widen : nullptr;  // copied planes are f32 already
    pack_steps(from + first * stride, dtype, stride, size, widen, place.count, steps, columns, to);
  }

  GatherPanelFunction* gather(int64_t columns) const {
    return columns == p_.shape.columns() ? code_.gather : code_.narrow_gather;
  }

  // Multiplies the panels of the strip from `number` on. sums: [panel][row][column].
  void multiply(const Strip& strip, int64_t row, int64_t rows, int64_t number, int64_t panels) const {
    const AmxScope scope(code_.amx);
    alignas(64) float sums[kMostItemSums + 16];
    alignas(64) char packed[kPackedBytes];
    alignas(64) char widened[kWidenedBytes];
    const int64_t sums_of_panel = round_up(rows, p_.shape.rows) * p_.shape.columns();
    int64_t first = 0;
    do {
      const int64_t steps = std::min(p_.block_steps, p_.steps - first);
      if (p_.widens_weights) widen(strip, row, rows, first, steps, widened);
      for (int64_t p = 0; p < panels; ++p) {
        const char* panel = p_.shares_panels ? shared_panel(strip, number + p, first) : packed;
        if (!p_.shares_panels) pack(strip, number + p, first, steps, packed);
        const int64_t columns = columns_of(strip, number + p);
        for (int64_t r = 0; r < rows; r += p_.shape.rows) {
          const bool last = first + steps == p_.steps, more = r + p_.shape.rows < rows;
          float* const of_tile = sums + p * sums_of_panel + r * columns;
          const char* next = more ? weights(strip, row + r + p_.shape.rows, first) : weights(strip, row, first + steps);
          // Memory traffic overlaps with the multiplication: the epilogue's operands of this tile are prefetched, and
          // the stores of the previous tile finish.
          if (last) fetch_tile(strip, row + r, number + p);
          const Rows of_weights = p_.widens_weights ? Rows{widened + r * steps * 4, steps * 4}
                                                    : Rows{weights(strip, row + r, first), weight_stride_};
          multiply_tile(of_weights, next, p, steps, first > 0, panel, columns, of_tile);
          if (last) write_tile(strip, row + r, rows - r, number + p, of_tile);
        }
      }
      first += p_.block_steps;
    } while (first < p_.steps);
  }

  // The last tile may start before its first row and then computes some rows again.
  int64_t first_row(int64_t row) const { return std::min<int64_t>(row, p_.weight_rows() - p_.shape.rows); }

  // Weights of the tile at `row`, from step `first` on.
  const char* weights(const Strip& strip, int64_t row, int64_t first) const {
    return weights_ + strip.group * weights_of_group_ + first_row(row) * weight_stride_ + first * step_bytes_;
  }

  // Widens the weights of the tiles of `rows` rows from `row` on, for the steps [first, first + steps).
  void widen(const Strip& strip, int64_t row, int64_t rows, int64_t first, int64_t steps, char* to) const {
    for (int64_t r = 0; r < rows; r += p_.shape.rows) {
      const char* from = weights(strip, row + r, first);
      for (int64_t i = 0; i < p_.shape.rows; ++i)
        code_.widen(from + i * weight_stride_, steps, to + (r + i) * steps * 4);
    }
  }

  // `next`: the weights of the next tile, of which the tile of panel `number` prefetches a part.
  void multiply_tile(const Rows& from, const char* next, int64_t number, int64_t steps, bool accumulate,
                     const char* panel, int64_t columns, float* sums) const {
    const int64_t parts = divide_up(p_.shape.rows, std::max(p_.shape.fetched_rows, 1));
    TileFunction* tile = columns == p_.shape.columns() ? code_.tile : code_.narrow_tile;
    next += number % parts * p_.shape.fetched_rows * weight_stride_;
    tile(panel, from.first, from.stride, kCutBytes, steps, sums, columns * 4, accumulate, next, weight_stride_,
         kCutSteps * step_bytes_);
  }

  static bool lies_as(const ng_buffer& a, const ng_buffer& b) {
    return a.rank == b.rank && a.dtype == b.dtype && std::equal(a.sizes, a.sizes + a.rank, b.sizes) &&
           std::equal(a.strides, a.strides + a.rank, b.strides);
  }

  void fetch_tile(const Strip& strip, int64_t row, int64_t number) const {
    const int64_t size = size_of(p_.dtype), column = (strip.panel + number) * p_.shape.columns();
    const int64_t at = ((strip.batch * p_.groups + strip.group) * p_.m + row) * p_.n + column;
    const int64_t rows = std::min<int64_t>(p_.shape.rows, p_.m - row),
                  bytes = std::min<int64_t>(p_.shape.columns(), p_.n - column) * size;
    for (const ng_buffer& buffer : read_with_result_)
      prefetch_rows<1>(static_cast<const char*>(buffer.data) + at * size, rows, p_.n * size, bytes);
  }

  // Writes at most `rows` rows of a tile.
  void write_tile(const Strip& strip, int64_t row, int64_t rows, int64_t number, float* sums) const {
    const int64_t stride = columns_of(strip, number), column = (strip.panel + number) * p_.shape.columns();
    const int64_t again = row - first_row(row);
    write((strip.batch * p_.groups + strip.group) * p_.m + row, std::min(rows, p_.shape.rows - again), column,
          std::min(stride, p_.n - column), sums + again * stride, stride);
  }

  // Rows count through images and channels.
  void write(int64_t row, int64_t rows, int64_t column, int64_t columns, float* sums, int64_t stride) const {
    if (code_.epilogue != nullptr)
      return code_.epilogue(sums, stride, rows, columns, row, column, ends_.data(), call_.scalars);
    if (p_.bias) add_bias(row, rows, sums, stride);
    const int64_t size = size_of(p_.dtype);
    char* to = static_cast<char*>(ends_.back()) + (row * p_.n + column) * size;
    code_.store(sums, stride, rows, columns, to, p_.n * size);
  }

  void add_bias(int64_t row, int64_t rows, float* sums, int64_t columns) const {
    const int64_t size = size_of(p_.dtype);
    const auto* bias = static_cast<const char*>(ends_.front()) + row % (p_.groups * p_.m) * size;
    for (int64_t r = 0; r < rows; ++r) {
      float value = 0;
      copy_elements(bias + r * size, p_.dtype, 0, 1, &value, DType::kF32, 1);
      for (int64_t c = 0; c < columns; ++c) sums[r * columns + c] += value;
    }
  }

  const ImageProductPlan& p_;
  const ImageProductCode& code_;
  const ng_call& call_;
  const char* weights_;
  int64_t weight_stride_, weights_of_group_;
  int64_t step_bytes_;  // of weights
  char* planes_;
  char* packed_;
  std::vector<void*> ends_;
  std::vector<ng_buffer> read_with_result_;  // operands of the epilogue that are laid out as the result
};

// Most rows of the result that `panels` panels in sequence can touch, wherever they begin.
int64_t rows_under(const ImageProductPlan& plan, int64_t panels) {
  return std::min(plan.out[0], (panels * plan.shape.columns() + plan.out[1] - 2) / plan.out[1] + 1);
}

void choose_strip(ImageProductPlan& plan, const Image& image, int64_t channels) {
  const auto planes_of = [&](int64_t panels) {
    return make_planes(image, plan.dtype, plan.multiplied(), channels, rows_under(plan, panels));
  };
  plan.strip_panels = std::max<int64_t>(plan.panels(), 1);
  plan.planes = planes_of(plan.strip_panels);
  while (plan.planes.bytes() > kStripBytes && plan.strip_panels > kMostShared) {
    plan.strip_panels = divide_up(plan.strip_panels, 2);
    plan.planes = planes_of(plan.strip_panels);
  }
}

// Panels in each of the equal parts of a strip that stay in the L2 cache while rows of weights pass through it.
int64_t panels_of_cache(const ImageProductPlan& plan, const target::Target& target) {
  const int64_t most = std::max<int64_t>(target.l2_bytes * 5 / 8 / std::max<int64_t>(plan.panel_bytes(), 1), 1);
  return divide_up(plan.strip_panels, divide_up(plan.strip_panels, most));
}

// On AMX, with several shared panels, weights stay in the L1 cache while these panels pass through it. Otherwise a
// panel stays there, and the weights are still in the L2 cache since the previous panel, so tiles prefetch nothing.
void choose_amx_tile(ImageProductPlan& plan) {
  const bool shared = plan.shares_panels && plan.block_panels > 1;
  plan.shape.fetched_rows = shared ? rows_for_each(plan.shape.rows, plan.block_panels) : 0;
  if (!shared) return;
  plan.shape.passing = Passing::kPanel;
  plan.block_steps = kAmxSteps;
}

}  // namespace

int64_t ImageProductPlan::weight_bytes() const {
  return copies_weights ? round_up(groups * weight_rows() * steps * 4, 64) : 0;
}

int64_t ImageProductPlan::strip_bytes() const { return round_up(planes.bytes(), 64); }

void complete(ImageProductPlan& plan, const Image& image, const target::Target& target) {
  const bool pairs = plan.dtype == DType::kBF16 && target.bf16_dot;
  plan.kind = pairs ? TileKind::kBf16Pairs : TileKind::kF32;
  plan.shape = tile_shape(target, plan.kind);
  plan.steps = pairs ? divide_up(plan.k, 2) : plan.k;
  if (plan.m == 0 || plan.n <= 0) return;
  choose_strip(plan, image, plan.k / image.taps());
  plan.shares_panels = plan.strip_panels <= kMostShared && plan.panels() <= kMostShared;
  // Weights that many panels pass are widened once. Those that few panels share may be larger than the pixels.
  const bool widens = plan.dtype != plan.multiplied();
  plan.copies_weights = (pairs && plan.k % 2 != 0) || plan.m < plan.shape.rows || (widens && !plan.shares_panels);
  plan.widens_weights = widens && !plan.copies_weights;
  plan.block_steps = kUsualSteps;
  plan.block_panels = plan.shares_panels ? panels_of_cache(plan, target) : 1;
  if (plan.shape.amx) choose_amx_tile(plan);
  const int64_t most_rows = kMostItemSums / plan.shape.columns() / plan.block_panels;
  constexpr int64_t kFewTiles = 32;
  const int64_t usual_shared = plan.m > kFewTiles * plan.shape.rows ? kSharingTiles * plan.shape.rows : plan.shape.rows;
  const int64_t usual = plan.shares_panels ? usual_shared : most_rows;
  const int64_t blocks = divide_up(plan.m, std::min(usual, most_rows) / plan.shape.rows * plan.shape.rows);
  plan.block_rows = round_up(divide_up(plan.m, blocks), plan.shape.rows);
}

void run_image_product(const ImageProductPlan& plan, const ImageProductCode& code, const ng_call& call) {
  ImageProductRun(plan, code, call).run();
}

}  // namespace npugraph::codegen
