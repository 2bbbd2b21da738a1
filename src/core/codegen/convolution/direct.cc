// SPDX-License-Identifier: Apache-2.0
#include "codegen/convolution/direct.h"

#include <algorithm>
#include <cstring>

#include "codegen/emit/loops.h"
#include "codegen/jit/make_code.h"
#include "codegen/matmul/copy.h"
#include "codegen/matmul/element.h"
#include "codegen/task/work_items.h"
#include "loop/task_parameters.h"

namespace npugraph::codegen {

using llvm::Align;
using llvm::Value;

llvm::FunctionType* direct_tile_type(llvm::LLVMContext& context) {
  llvm::Type* pointer = llvm::PointerType::getUnqual(context);
  llvm::Type* integer = llvm::Type::getInt64Ty(context);
  return llvm::FunctionType::get(llvm::Type::getVoidTy(context),
                                 {pointer, pointer, pointer, integer, pointer, integer, pointer, integer}, false);
}

void emit_direct_tile(llvm::Function* f, DirectLanes in_lanes, const target::Target& target) {
  llvm::IRBuilder<> b(llvm::BasicBlock::Create(f->getContext(), "entry", f));
  const int lanes = target.lanes(DType::kF32);
  auto* vector = llvm::FixedVectorType::get(b.getFloatTy(), lanes);
  const auto at = [&](Value* pointer, Value* bytes) { return b.CreateGEP(b.getInt8Ty(), pointer, bytes); };
  const auto entry = [&](Value* array, llvm::Type* type, Value* i) {
    return b.CreateLoad(type, b.CreateGEP(type, array, i));
  };
  Values from, to;  // of each vector
  for (int v = 0; v < kDirectVectors; ++v) {
    from.push_back(b.CreateMul(f->getArg(5), b.getInt64(v)));
    to.push_back(at(f->getArg(6), b.CreateMul(f->getArg(7), b.getInt64(v))));
  }
  const auto factors = [&](Value* array, Value* i) -> Value* {
    if (in_lanes == DirectLanes::kPixels) return b.CreateVectorSplat(lanes, entry(array, b.getFloatTy(), i));
    return b.CreateAlignedLoad(vector, b.CreateGEP(vector, array, i), Align(4));
  };
  const Values first(kDirectVectors, factors(f->getArg(4), b.getInt64(0)));
  const Values sums = emit_loop(b, b.getInt64(0), f->getArg(3), 1, first, [&](Value* tap, const Values& carried) {
    Value* place = at(f->getArg(0), entry(f->getArg(1), b.getInt64Ty(), tap));
    Value* weight = factors(f->getArg(2), tap);
    Values next;
    for (int v = 0; v < kDirectVectors; ++v) {
      Value* pixels = b.CreateAlignedLoad(vector, at(place, from[v]), Align(4));
      next.push_back(multiply_add(b, weight, pixels, carried[v], target.fma));
    }
    return next;
  });
  for (int v = 0; v < kDirectVectors; ++v) b.CreateAlignedStore(sums[v], to[v], Align(4));
  b.CreateRetVoid();
}

DirectTileFunction* direct_tile_code(const target::Target& target, DirectLanes lanes) {
  const char* name = lanes == DirectLanes::kPixels ? "direct tile of pixels" : "direct tile of channels";
  const MachineCode& code = stored_code(target, name, [&](llvm::Module& module) {
    emit_direct_tile(add_function(module, target, "tile", direct_tile_type(module.getContext())), lanes, target);
  });
  return code.function<DirectTileFunction>("tile");
}

namespace {

constexpr int64_t kWindowFloats = loop::kDirectWindow;
constexpr int64_t kUsualFloats = 10 << 10;  // of a window that stays in the L1 cache
constexpr int64_t kMostPieceSums = 4096;    // of a piece
constexpr int64_t kMostDirectLanes = 16;

class DirectRun {
 public:
  DirectRun(const DirectPlan& plan, const DirectCode& code, const ng_call& call) : p_(plan), code_(code), call_(call) {
    for (uint32_t i = 2; i < call.num_buffers; ++i) ends_.push_back(call.buffers[i].data);
  }

  void run() const {
    const int64_t each = p_.piece[0] * p_.piece[1] * p_.taps() * p_.channels_out;
    for_items(*call_.host, p_.items(), each, [this](int64_t item) { run_piece(item); });
  }

 private:
  // A piece of the result.
  struct Piece : Pixels {
    int64_t batch = 0, group = 0;
  };

  Piece piece(int64_t item) const {
    Piece made{take_pixels(item, p_.out, p_.piece)};
    made.group = item % p_.groups;
    made.batch = item / p_.groups;
    return made;
  }

  void run_piece(int64_t item) const {
    alignas(64) float window[kWindowFloats];
    alignas(64) float sums[kMostPieceSums + kDirectVectors * kMostDirectLanes];
    const Piece made = piece(item);
    for (int64_t c = 0; c < p_.channels_in; ++c) copy_channel(made, c, window + c * p_.rows * p_.pitch());
    for (int64_t c = 0; c < p_.channels_out; ++c) {
      const int64_t channel = made.group * p_.channels_out + c;
      multiply(made, channel, window, sums);
      write(made, channel, sums);
    }
  }

  // Copies the rows under the piece from channel `c` of its group.
  void copy_channel(const Piece& made, int64_t c, float* to) const {
    const Image& image = p_.image;
    const char* plane = static_cast<const char*>(call_.buffers[1].data) + made.batch * p_.batch_stride +
                        (made.group * p_.channels_in + c) * image.strides[0];
    const int64_t rows = (made.size[0] - 1) * image.step[0] + (image.kernel[0] - 1) * image.dilation[0] + 1;
    const int64_t top = made.first[0] * image.step[0] - image.padding[0];
    const int64_t left = made.first[1] * image.step[1] - image.padding[1];
    for (int64_t phase = 0; phase < image.step[1]; ++phase, to += p_.width) {
      const RowCopy pixels(image, p_.dtype, left + phase, p_.width, DType::kF32, code_.copy);
      pixels.copy(plane, top, 1, rows, reinterpret_cast<char*>(to), p_.pitch() * kFloat);
    }
  }

  float bias_of(int64_t channel) const {
    float value = 0;
    if (p_.bias) {
      const char* bias = static_cast<const char*>(ends_.front()) + channel * size_of(p_.dtype);
      copy_elements(bias, p_.dtype, 0, 1, &value, DType::kF32, 1);
    }
    return value;
  }

  // sums: [row][pixel], dense. Elements that a tile writes beyond the end of a row are overwritten later with their own
  // sums.
  void multiply(const Piece& made, int64_t channel, const float* window, float* sums) const {
    float converted[loop::kDirectTaps];
    const char* from = static_cast<const char*>(call_.buffers[0].data) + channel * p_.taps() * size_of(p_.dtype);
    const auto* weights = reinterpret_cast<const float*>(from);
    if (p_.dtype != DType::kF32) {
      copy_elements(from, p_.dtype, size_of(p_.dtype), p_.taps(), converted, DType::kF32, p_.taps());
      weights = converted;
    }
    const int64_t row_step = p_.image.step[0] * p_.pitch();
    const float first = bias_of(channel);
    const auto tile = [&](int64_t y, int64_t x) {
      const int64_t step = p_.along_rows ? p_.lanes : row_step, out_step = p_.along_rows ? p_.lanes : made.size[1];
      code_.tile(window + y * row_step + x, p_.offsets.data(), weights, p_.taps(), &first, step * kFloat,
                 sums + y * made.size[1] + x, out_step * kFloat);
    };
    if (p_.along_rows) {
      for (int64_t y = 0; y < made.size[0]; ++y) {
        for (int64_t x = 0; x < made.size[1]; x += kDirectVectors * p_.lanes) tile(y, x);
      }
      return;
    }
    for (int64_t y = 0; y < made.size[0]; y += kDirectVectors) {
      const int64_t row = std::max<int64_t>(std::min(y, made.size[0] - kDirectVectors), 0);
      for (int64_t x = (made.size[1] - 1) / p_.lanes * p_.lanes; x >= 0; x -= p_.lanes) tile(row, x);
    }
  }

  void write(const Piece& made, int64_t channel, const float* sums) const {
    const int64_t row = made.batch * p_.groups * p_.channels_out + channel;
    const int64_t at = made.first[0] * p_.out[1] + made.first[1];
    if (made.size[1] == p_.out[1]) return write_columns(row, at, made.size[0] * made.size[1], sums);
    for (int64_t y = 0; y < made.size[0]; ++y)
      write_columns(row, at + y * p_.out[1], made.size[1], sums + y * made.size[1]);
  }

  void write_columns(int64_t row, int64_t column, int64_t count, const float* sums) const {
    if (code_.epilogue != nullptr)
      return code_.epilogue(sums, count, 1, count, row, column, ends_.data(), call_.scalars);
    char* to = static_cast<char*>(ends_.back()) + (row * p_.out[0] * p_.out[1] + column) * size_of(p_.dtype);
    code_.store(sums, count, 1, count, to, 0);
  }

  static constexpr int64_t kFloat = sizeof(float);

  const DirectPlan& p_;
  const DirectCode& code_;
  const ng_call& call_;
  std::vector<void*> ends_;
};

// Sets the size of the window. Returns whether it has at most `most` floats, and the piece at most kMostPieceSums sums.
bool fit_direct_window(DirectPlan& plan, int64_t most) {
  const int64_t lanes = plan.lanes;
  const Image& image = plan.image;
  const int64_t columns = plan.along_rows ? kDirectVectors * lanes : lanes;
  const int64_t rows = plan.along_rows ? plan.piece[0] : std::max<int64_t>(plan.piece[0], kDirectVectors);
  plan.width = divide_up(plan.piece[1], columns) * columns + (image.kernel[1] - 1) * image.dilation[1] / image.step[1];
  plan.rows = (rows - 1) * image.step[0] + (image.kernel[0] - 1) * image.dilation[0] + 1;
  return plan.channels_in * plan.rows * plan.pitch() <= most && rows * plan.piece[1] <= kMostPieceSums;
}

// Reduces the rows of the piece until its window has the usual size, and then its columns until the window fits at all.
void choose_piece(DirectPlan& plan) {
  constexpr int64_t kMostColumns = 512;
  const int64_t out_rows = std::max<int64_t>(plan.out[0], 1), out_columns = std::max<int64_t>(plan.out[1], 1);
  const int64_t least_rows = plan.along_rows ? 1 : kDirectVectors;
  plan.piece = {out_rows, divide_up(out_columns, divide_up(out_columns, kMostColumns))};
  while (!fit_direct_window(plan, kUsualFloats) && plan.piece[0] > least_rows)
    plan.piece[0] = std::max(divide_up(plan.piece[0], 2 * least_rows) * least_rows, least_rows);
  while (!fit_direct_window(plan, kWindowFloats) && plan.piece[1] > plan.lanes)
    plan.piece[1] = divide_up(divide_up(plan.piece[1], 2), plan.lanes) * plan.lanes;
}

}  // namespace

bool complete(DirectPlan& plan, const target::Target& target) {
  const int64_t lanes = plan.lanes = target.lanes(DType::kF32);
  const int64_t below = divide_up(plan.out[0], kDirectVectors) * divide_up(plan.out[1], lanes);
  const int64_t along = plan.out[0] * divide_up(plan.out[1], kDirectVectors * lanes);
  plan.along_rows = along < below;
  choose_piece(plan);
  if (plan.along_rows && !fit_direct_window(plan, kWindowFloats)) {
    plan.along_rows = false;
    choose_piece(plan);
  }
  if (!fit_direct_window(plan, kWindowFloats) || plan.taps() > loop::kDirectTaps) return false;

  const Image& image = plan.image;
  for (int64_t c = 0; c < plan.channels_in; ++c) {
    for (int64_t ky = 0; ky < image.kernel[0]; ++ky) {
      for (int64_t kx = 0; kx < image.kernel[1]; ++kx) {
        const int64_t x = kx * image.dilation[1];
        const int64_t row = c * plan.rows + ky * image.dilation[0];
        const int64_t place = row * plan.pitch() + x % image.step[1] * plan.width + x / image.step[1];
        plan.offsets.push_back(place * static_cast<int64_t>(sizeof(float)));
      }
    }
  }
  return true;
}

void run_direct(const DirectPlan& plan, const DirectCode& code, const ng_call& call) {
  if (plan.items() != 0) DirectRun(plan, code, call).run();
}

}  // namespace npugraph::codegen
