// SPDX-License-Identifier: Apache-2.0
// Attention of many rows, a panel of them at a time: keys are broadcast in place, queries are packed.
#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <span>

#include "codegen/attention/item.h"
#include "codegen/matmul/copy.h"
#include "codegen/task/work_items.h"

namespace npugraph::codegen {
namespace {

// Some rows of queries, and their results so far.
struct Panel {
  int64_t row = 0;    // of the first lane
  int64_t rows = 0;   // lanes in use; the others repeat the last of them
  int64_t width = 0;  // lanes
  bool started = false;
  // By their positions, all rows see the keys [last_first, first_limit), and no row sees keys outside of [first,
  // limit).
  int64_t first = 0;
  int64_t last_first = 0;
  int64_t first_limit = 0;
  int64_t limit = 0;
  float* queries = nullptr;  // [step][lane], of 4 bytes
  float* sums = nullptr;     // [element of a value][lane]
  float* state = nullptr;    // largest scores, sums of probabilities
  int32_t* limits = nullptr;
};

struct PanelsMemory {
  PanelsMemory(const AttentionPlan& plan, Pieces& pieces) {
    const int64_t width = plan.shape.columns(), lanes = plan.shape.lanes;
    const int64_t steps = round_up(plan.steps(), lanes);
    // Tiles of keys and vectors of a mask are written whole, also those of blocks with fewer keys.
    const int64_t keys = round_up(std::max(plan.block_keys, int64_t{plan.shape.rows}), lanes);
    const int64_t block = keys * width;
    for (int64_t i = 0; i < plan.block_rows / width; ++i) {
      Panel& panel = panels[static_cast<size_t>(i)];
      panel.queries = pieces.take<float>(steps * width);
      panel.sums = pieces.take<float>(plan.value_columns() * width);
      panel.state = pieces.take<float>(2 * width);
      panel.limits = pieces.take<int32_t>(width);
    }
    scores = pieces.take<float>(block);
    mask = pieces.take<float>(plan.adds_mask() ? block : 0);
    mask_rows = pieces.take<float>(plan.adds_mask() ? block : 0);
    copies = pieces.take<float>(width * std::max(steps, round_up(plan.value_size, lanes) + lanes));
    staged_keys = pieces.take<float>((plan.keys_in_place() ? plan.shape.rows : keys) * plan.steps());
    staged_values = pieces.take<float>(keys * plan.value_columns());
    interleaved = pieces.take<float>(plan.shape.amx ? block : 0);
  }

  std::array<Panel, kMostPanels> panels;
  float* scores;
  float* mask;       // as a panel
  float* mask_rows;  // row after row
  float* copies;     // of queries, of sums
  float* staged_keys;
  float* staged_values;
  float* interleaved;  // a panel of values
};

class Panels {
 public:
  Panels(const AttentionCall& call, const AttentionItem& item, PanelsMemory& memory)
      : c_(call),
        p_(call.plan),
        item_(item),
        width_(p_.shape.columns()),
        lanes_(p_.shape.lanes),
        m_(memory),
        panels_(memory.panels.data(), static_cast<size_t>((item.rows + width_ - 1) / width_)) {}

  void run() {
    const AmxScope scope(c_.code.amx);
    int64_t begin = item_.key + item_.keys, end = item_.key, row = item_.row;
    for (Panel& panel : panels_) {
      panel.row = row;
      panel.rows = std::min(width_, item_.row + item_.rows - row);
      panel.width = panel.rows <= lanes_ ? lanes_ : width_;
      row += width_;
      start(panel);
      begin = std::min(begin, std::max(item_.key, panel.first));
      end = std::max(end, std::min(item_.key + item_.keys, panel.limit));
    }
    for (int64_t key = begin, count = 0; key < end; key += count) {
      count = c_.in_one_piece(key, std::min(p_.block_keys, end - key));
      run_block(key, count);
    }
    for (Panel& panel : panels_) finish(panel);
  }

 private:
  struct Rows {
    const char* first;
    int64_t stride;
  };

  const AttentionCode::Panels& code(const Panel& panel) const { return c_.code.panels[panel.width == width_ ? 0 : 1]; }

  void start(Panel& panel) {
    const int64_t stride = round_up(p_.steps(), lanes_);
    const int64_t elements = p_.pairs ? 2 * p_.steps() : p_.steps();
    panel.first = panel.first_limit = p_.keys;
    for (int64_t lane = 0; lane < panel.width; ++lane) {
      const int64_t row = panel.row + std::min(lane, panel.rows - 1);
      panel.limits[lane] = static_cast<int32_t>(c_.limit(row));
      panel.first = std::min(panel.first, c_.first(row));
      panel.last_first = std::max(panel.last_first, c_.first(row));
      panel.first_limit = std::min(panel.first_limit, c_.limit(row));
      panel.limit = std::max(panel.limit, c_.limit(row));
      panel.state[lane] = -std::numeric_limits<float>::infinity();
      panel.state[panel.width + lane] = 0;
      copy(c_.query(item_.batch, item_.head, row), p_.q, p_.key_size, m_.copies + lane * stride, elements);
    }
    c_.code.transpose(m_.copies, stride * 4, panel.width, stride, panel.queries, panel.width * 4);
  }

  void run_block(int64_t key, int64_t count) {
    keys_staged_ = values_staged_ = false;
    for (Panel& panel : panels_) {
      if (panel.limit <= key || key + count <= panel.first) continue;
      const bool loads = p_.masked || panel.last_first > key;
      const MaskEffect effect = loads ? load_mask(panel, key, count) : MaskEffect{false, true};
      if (effect.hides_all) continue;
      multiply_keys(panel, key, count);
      const bool limited = panel.first_limit < key + count || p_.scale < 0;
      code(panel).softmax[limited][!effect.hides_none](m_.scores, count, key, panel.limits, m_.mask, p_.scale,
                                                       panel.state, panel.sums, panel.started ? p_.value_size : 0);
      multiply_values(panel, key, count);
      panel.started = true;
    }
  }

  MaskEffect load_mask(const Panel& panel, int64_t key, int64_t count) {
    MaskEffect effect, of_mask{false, true};
    const char* before = nullptr;
    for (int64_t lane = 0; lane < panel.width; ++lane) {
      float* to = m_.mask_rows + lane * p_.block_keys;
      const int64_t row = panel.row + std::min(lane, panel.rows - 1);
      const int64_t hidden = std::clamp<int64_t>(c_.first(row) - key, 0, count);
      const char* from = p_.masked ? c_.mask_at(item_, row, key) : nullptr;
      if (from == nullptr)
        std::fill(to + hidden, to + count, 0.0F);
      else if (from == before)
        std::memcpy(to, to - p_.block_keys, static_cast<size_t>(count) * 4);
      else
        of_mask = c_.copy_mask(from, count, to);
      std::fill(to, to + hidden, -std::numeric_limits<float>::infinity());
      // A row with hidden keys is not copied for the next row.
      before = hidden == 0 ? from : nullptr;
      effect.add({of_mask.hides_all || hidden == count, of_mask.hides_none && hidden == 0});
    }
    if (!effect.hides_all && !effect.hides_none)
      c_.code.transpose(m_.mask_rows, p_.block_keys * 4, panel.width, round_up(count, lanes_), m_.mask,
                        panel.width * 4);
    return effect;
  }

  void multiply_keys(const Panel& panel, int64_t key, int64_t count) {
    const int64_t rows = p_.shape.rows;
    const bool in_place = p_.keys_in_place() && count >= rows;
    if (!in_place && !keys_staged_) stage_keys(key, count);
    keys_staged_ = true;
    const Rows keys = in_place ? Rows{c_.key(item_, key), p_.k.row()}
                               : Rows{reinterpret_cast<const char*>(m_.staged_keys), p_.steps() * 4};
    for (int64_t k = 0; k < count; k += rows) {
      // A last tile that is not whole starts earlier and computes some scores again, if there are enough keys.
      const int64_t first = std::min(k, std::max(count, rows) - rows);
      const Rows next = read_next(panel, key + first, count);
      code(panel).products(panel.queries, keys.first + first * keys.stride, keys.stride, kCutBytes, p_.steps(),
                           m_.scores + first * panel.width, panel.width * 4, 0, next.first, next.stride, 64);
    }
  }

  // Rows that are prefetched while a tile of keys is multiplied. A single panel prefetches the next keys. Of several
  // panels, the first one prefetches the values of the same keys, and the others keys of the next block.
  Rows read_next(const Panel& panel, int64_t key, int64_t count) const {
    if (panels_.size() == 1) return {c_.key(item_, c_.prefetched(key + p_.shape.rows)), p_.k.row()};
    if (&panel == panels_.data()) return {c_.value(item_, key), p_.v.row()};
    return {c_.key(item_, c_.prefetched(key + count)), p_.k.row()};
  }

  // copy_elements() of a row, to the type that is multiplied.
  void copy(const char* from, const HeadsPlace& place, int64_t count, float* to, int64_t padded) const {
    copy_row(from, place.dtype, place.column(), c_.code.widen, count, to, p_.multiplied(), padded);
  }

  // Copies the keys of a block. If they are fewer than the rows of a tile, the last one is repeated.
  void stage_keys(int64_t key, int64_t count) {
    const int64_t elements = p_.pairs ? 2 * p_.steps() : p_.steps();
    for (int64_t r = 0; r < std::max<int64_t>(count, p_.shape.rows); ++r)
      copy(c_.key(item_, key + std::min(r, count - 1)), p_.k, p_.key_size, m_.staged_keys + r * p_.steps(), elements);
  }

  // Copies the values of a block, with `pairs` as pairs of keys.
  void stage_values(int64_t key, int64_t count) {
    const char* from = c_.value(item_, key);
    if (p_.pairs)
      return pack_pairs(from, p_.v.row(), p_.v.column(), p_.value_size, count, 0, divide_up(count, 2), p_.value_size,
                        m_.staged_values);
    pack_steps(from, p_.v.dtype, p_.v.row(), p_.v.column(), c_.code.widen, p_.value_size, count, p_.value_size,
               m_.staged_values);
  }

  // Bytes from an element of values to the next one in staged_values, for AMX.
  int64_t turned_stride() const { return round_up(divide_up(p_.block_keys, 2), lanes_) * 4; }

  // Stages values as rows of tiles: [element][pair of keys].
  void turn_values(int64_t key, int64_t count) {
    const int64_t steps = divide_up(count, 2), columns = p_.shape.columns();
    for (int64_t e = 0; e < p_.value_columns(); e += columns) {
      const char* from = c_.value(item_, key) + e * p_.v.column();
      const int64_t known = std::min(columns, p_.value_size - e);
      if (p_.v.is_dense() && known == columns && count % 2 == 0)
        c_.code.interleave(from, p_.v.row(), steps, m_.interleaved);
      else
        pack_pairs(from, p_.v.row(), p_.v.column(), known, count, 0, steps, columns, m_.interleaved);
      c_.code.transpose(m_.interleaved, columns * 4, steps, columns,
                        reinterpret_cast<char*>(m_.staged_values) + e * turned_stride(), turned_stride());
    }
  }

  void multiply_turned_values(const Panel& panel, int64_t key, int64_t count) {
    if (!values_staged_) turn_values(key, count);
    values_staged_ = true;
    const char* rows = reinterpret_cast<const char*>(m_.staged_values);
    for (int64_t e = 0; e < p_.value_size; e += p_.shape.rows) {
      const char* from = rows + e * turned_stride();
      code(panel).products(m_.scores, from, turned_stride(), kCutBytes, divide_up(count, 2),
                           panel.sums + e * panel.width, panel.width * 4, panel.started, from, 0, 0);
    }
  }

  void multiply_values(const Panel& panel, int64_t key, int64_t count) {
    if (p_.shape.amx) return multiply_turned_values(panel, key, count);
    const bool in_place = !p_.pairs && p_.v.is_dense() && p_.v.dtype == DType::kF32;
    if (!in_place && !values_staged_) stage_values(key, count);
    values_staged_ = true;
    const char* from = in_place ? c_.value(item_, key) : reinterpret_cast<const char*>(m_.staged_values);
    const int64_t stride = in_place ? p_.v.row() : p_.value_size * 4;
    const int64_t steps = p_.pairs ? (count + 1) / 2 : count;
    const int64_t usual = value_tile_rows(p_);
    const int64_t larger = p_.value_size % value_tiles(p_);
    for (int64_t tile = 0, e = 0; e < p_.value_size; ++tile) {
      const auto multiply = tile < larger ? code(panel).one_more : code(panel).values;
      multiply(m_.scores, from + e * 4, stride, steps, panel.sums + e * panel.width, panel.started);
      e += usual + (tile < larger ? 1 : 0);
    }
  }

  void finish(Panel& panel) {
    const int64_t values = round_up(p_.value_size, lanes_);
    if (!panel.started) std::fill_n(panel.sums, p_.value_size * panel.width, 0.0F);
    if (p_.value_size > 0)
      c_.code.transpose(panel.sums, panel.width * 4, p_.value_size, panel.width, m_.copies, values * 4);
    c_.finish(item_, panel.row, panel.rows, m_.copies, values, panel.state, panel.state + panel.width);
  }

  const AttentionCall& c_;
  const AttentionPlan& p_;
  const AttentionItem& item_;
  int64_t width_;
  int64_t lanes_;
  const PanelsMemory& m_;
  std::span<Panel> panels_;
  // Whether keys and values of this block are staged, if they are not multiplied where they lie.
  bool keys_staged_ = false;
  bool values_staged_ = false;
};

}  // namespace

int64_t bytes_of_panels(const AttentionPlan& plan) {
  Pieces pieces(nullptr);
  PanelsMemory(plan, pieces);
  return pieces.bytes();
}

void run_panels(const AttentionCall& call, const AttentionItem& item, char* memory) {
  Pieces pieces(memory);
  PanelsMemory pieces_of_item(call.plan, pieces);
  Panels(call, item, pieces_of_item).run();
}

}  // namespace npugraph::codegen
