// SPDX-License-Identifier: Apache-2.0
#include "codegen/convolution/image_planes.h"

#include <algorithm>
#include <array>
#include <cstring>

#include <llvm/IR/IntrinsicsX86.h>

#include "base/error.h"
#include "codegen/emit/loops.h"
#include "codegen/jit/make_code.h"

namespace npugraph::codegen {

namespace {

// The phases of taps, in order.
std::vector<int64_t> phases_of(const Image& image, size_t d) {
  std::vector<int64_t> phases;
  for (int64_t tap = 0; tap < image.kernel[d]; ++tap) {
    const int64_t phase = tap * image.dilation[d] % image.step[d];
    if (std::ranges::find(phases, phase) == phases.end()) phases.push_back(phase);
  }
  return phases;
}

int64_t index_of(const std::vector<int64_t>& phases, int64_t phase) {
  return std::ranges::find(phases, phase) - phases.begin();
}

bool lies_so(const Image& image, DType dtype) {
  const auto is_one = [](int64_t number) { return number == 1; };
  return image.taps() == 1 && std::ranges::all_of(image.step, is_one) && image.padding[0] == 0 &&
         image.padding[1] == 0 && image.strides[2] == size_of(dtype) &&
         (image.size[0] == 1 || image.strides[1] == image.size[1] * size_of(dtype));
}

}  // namespace

int64_t ImagePlanes::bytes() const {
  return in_place ? 0 : copied_channels() * channel_bytes + kReadable * size_of(dtype);
}

ImagePlanes make_planes(const Image& image, DType image_dtype, DType dtype, int64_t channels, int64_t out_rows) {
  ImagePlanes planes{
      .image = image, .dtype = dtype, .image_dtype = image_dtype, .channels = channels, .out_rows = out_rows};
  planes.in_place = lies_so(image, image_dtype);
  if (planes.in_place) planes.dtype = image_dtype;
  const int64_t size = size_of(planes.dtype);
  planes.phases_y = phases_of(image, 0);
  planes.phases_x = phases_of(image, 1);
  // The padding at the end of a row is also the padding at the beginning of the next one.
  const int64_t whole = image.out(1) + image.reach(1);
  planes.pitch = image.step[1] == 1 ? whole - image.padding[1] : whole;
  planes.phase_elements = (out_rows + image.reach(0)) * planes.pitch + (whole - planes.pitch);
  const auto phases = static_cast<int64_t>(planes.phases_y.size() * planes.phases_x.size());
  planes.channel_bytes = planes.in_place ? image.strides[0] : phases * planes.phase_elements * size;

  for (int64_t c = 0; c < channels; ++c) {
    for (int64_t ky = 0; ky < image.kernel[0]; ++ky) {
      for (int64_t kx = 0; kx < image.kernel[1]; ++kx) {
        const int64_t y = ky * image.dilation[0], x = kx * image.dilation[1];
        const int64_t phase = index_of(planes.phases_y, y % image.step[0]) * std::ssize(planes.phases_x) +
                              index_of(planes.phases_x, x % image.step[1]);
        const int64_t element = phase * planes.phase_elements + planes.place(y / image.step[0], x / image.step[1]);
        planes.offsets.push_back(c * planes.channel_bytes + element * size);
      }
    }
  }
  planes.offsets.push_back(channels * planes.channel_bytes);
  return planes;
}

void copy_channel(const ImagePlanes& planes, const char* image, int64_t channel, int64_t first_row, char* to,
                  CopyRowsFunction* code) {
  const Image& of = planes.image;
  const int64_t size = size_of(planes.dtype);
  if (channel == planes.channels) {
    std::memset(to, 0, planes.channel_bytes);
    return;
  }
  const char* plane = image + channel * of.strides[0];
  const int64_t rows = planes.out_rows + of.reach(0);
  for (const int64_t phase_y : planes.phases_y) {
    for (const int64_t phase_x : planes.phases_x) {
      const RowCopy pixels(of, planes.image_dtype, phase_x - of.padding[1], planes.pitch, planes.dtype, code);
      const int64_t top = first_row * of.step[0] - of.padding[0] + phase_y, row_bytes = planes.pitch * size;
      pixels.copy(plane, top, of.step[0], rows, to, row_bytes);
      std::memset(to + rows * row_bytes, 0, planes.phase_elements * size - rows * row_bytes);
      to += planes.phase_elements * size;
    }
  }
}

namespace {

using llvm::Align;
using llvm::Value;

constexpr int kLanes = 16;
constexpr int64_t kVectorBytes = 64;

void emit_gather_panel(llvm::Function* f, TileKind kind, unsigned vectors) {
  llvm::IRBuilder<> b(llvm::BasicBlock::Create(f->getContext(), "entry", f));
  const bool pairs = kind == TileKind::kBf16Pairs;
  const auto at = [&](Value* pointer, Value* bytes) { return b.CreateGEP(b.getInt8Ty(), pointer, bytes); };
  auto* order_type = llvm::FixedVectorType::get(pairs ? b.getInt16Ty() : b.getInt32Ty(), pairs ? 2 * kLanes : kLanes);
  auto* vector = llvm::FixedVectorType::get(pairs ? b.getInt16Ty() : b.getFloatTy(), pairs ? 2 * kLanes : kLanes);
  const auto permute =
      pairs ? llvm::Intrinsic::x86_avx512_vpermi2var_hi_512 : llvm::Intrinsic::x86_avx512_vpermi2var_ps_512;
  Values orders;
  for (int64_t v = 0; v < vectors; ++v)
    orders.push_back(b.CreateAlignedLoad(order_type, at(f->getArg(4), b.getInt64(v * kVectorBytes)), Align(64)));
  const auto load = [&](Value* place, Value* offset) {
    return b.CreateAlignedLoad(vector, at(place, offset), Align(2));
  };
  emit_loop(b, b.getInt64(0), f->getArg(3), 1, {f->getArg(5)}, [&](Value* s, const Values& panel) -> Values {
    Value* entry = b.CreateGEP(b.getInt64Ty(), f->getArg(2), pairs ? b.CreateShl(s, 1) : s);
    Value* offset = b.CreateLoad(b.getInt64Ty(), entry);
    Value* other = pairs ? b.CreateLoad(b.getInt64Ty(), b.CreateConstGEP1_64(b.getInt64Ty(), entry, 1))
                         : b.CreateAdd(offset, b.getInt64(kVectorBytes));
    for (unsigned v = 0; v < vectors; ++v) {
      Value* both = b.CreateIntrinsic(permute, {}, {load(f->getArg(v), offset), orders[v], load(f->getArg(v), other)});
      b.CreateAlignedStore(both, at(panel[0], b.getInt64(v * kVectorBytes)), Align(64));
    }
    return {at(panel[0], b.getInt64(vectors * kVectorBytes))};
  });
  b.CreateRetVoid();
}

llvm::FunctionType* gather_panel_type(llvm::LLVMContext& context) {
  llvm::Type* pointer = llvm::PointerType::getUnqual(context);
  llvm::Type* integer = llvm::Type::getInt64Ty(context);
  return llvm::FunctionType::get(llvm::Type::getVoidTy(context), {pointer, pointer, pointer, integer, pointer, pointer},
                                 false);
}

// Arguments of the machine code for a panel.
struct GatherOrder {
  std::array<int64_t, 2> places{};  // of the first columns of its vectors, in elements
  alignas(64) std::array<uint16_t, 64> pairs{};
  alignas(64) std::array<uint32_t, 32> singles{};
};

int64_t place_of(const ImagePlanes& planes, const PanelPlace& place, int64_t c) {
  const int64_t column = place.column + std::min(c, place.count - 1);
  return planes.place(column / place.width, column % place.width);
}

// Fills in the order. Returns false if a vector spans more than the elements that are loaded for it.
bool find_order(const ImagePlanes& planes, const PanelPlace& place, GatherOrder& order) {
  for (int v = 0; v < place.columns / kLanes; ++v) {
    order.places[v] = place_of(planes, place, v * kLanes);
    for (int l = 0; l < kLanes; ++l) {
      const int64_t element = place_of(planes, place, v * kLanes + l) - order.places[v];
      if (element >= 2 * kLanes) return false;
      order.singles[v * kLanes + l] = static_cast<uint32_t>(element);
      order.pairs[2 * (v * kLanes + l)] = static_cast<uint16_t>(element);
      order.pairs[2 * (v * kLanes + l) + 1] = static_cast<uint16_t>(element + 2 * kLanes);
    }
  }
  return true;
}

// Copies the elements of one tap, row by row of the result, to every `apart`-th element of `to`.
template <typename Element>
void copy_panel_row(const ImagePlanes& planes, const char* tap, const PanelPlace& place, Element* to, int64_t apart) {
  int64_t y = place.column / place.width, x = place.column % place.width;
  for (int64_t c = 0; c < place.count; ++y, x = 0) {
    const int64_t count = std::min(place.count - c, place.width - x);
    const char* from = tap + planes.place(y, x) * static_cast<int64_t>(sizeof(Element));
    for (int64_t i = 0; i < count; ++i) std::memcpy(to + (c + i) * apart, from + i * sizeof(Element), sizeof(Element));
    c += count;
  }
  for (int64_t c = place.count; c < place.columns; ++c) to[c * apart] = {};
}

}  // namespace

bool has_gather_panel(const target::Target& target) {
  return target.arch == target::Arch::kX86_64 && target.lanes(DType::kF32) == kLanes;
}

GatherPanelFunction* gather_panel_code(const target::Target& target, TileKind kind, int vectors) {
  const std::string name = cat("gather panel ", static_cast<int>(kind), " ", vectors);
  const MachineCode& code = stored_code(target, name, [&](llvm::Module& module) {
    emit_gather_panel(add_function(module, target, "gather", gather_panel_type(module.getContext())), kind, vectors);
  });
  return code.function<GatherPanelFunction>("gather");
}

void pack_panel(const ImagePlanes& planes, const char* strip, const PanelPlace& place, TileKind kind, int64_t first,
                int64_t steps, GatherPanelFunction* gather, void* panel) {
  const bool pairs = kind == TileKind::kBf16Pairs;
  const int64_t* offsets = planes.offsets.data() + (pairs ? 2 : 1) * first;
  GatherOrder order;
  if (gather != nullptr && find_order(planes, place, order)) {
    const int64_t size = size_of(planes.dtype);
    return gather(strip + order.places[0] * size, strip + order.places[1] * size, offsets, steps,
                  pairs ? static_cast<const void*>(order.pairs.data()) : order.singles.data(), panel);
  }
  if (!pairs) {
    auto* to = static_cast<uint32_t*>(panel);
    for (int64_t s = 0; s < steps; ++s, to += place.columns) copy_panel_row(planes, strip + offsets[s], place, to, 1);
    return;
  }
  auto* to = static_cast<uint16_t*>(panel);
  for (int64_t s = 0; s < 2 * steps; ++s)
    copy_panel_row(planes, strip + offsets[s], place, to + s / 2 * 2 * place.columns + s % 2, 2);
}

}  // namespace npugraph::codegen
