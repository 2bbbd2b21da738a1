// SPDX-License-Identifier: Apache-2.0
// Search for scales of quantisation.
#include <cmath>
#include <limits>

#include "device/npu_ops/families.h"
#include "device/npu_ops/framework/checks.h"

namespace npugraph::npu_ops {
namespace {

struct ValueRange {
  double least, greatest;
};

// The lower edge of the first bin and the upper edge of the last bin that remain after the percentiles are cut off.
// `cumsum` counts elements up to the upper edge of each bin.
ValueRange kept_range(const char* op, const ValueRange& all, const Tensor& cumsum, double min_percentile,
                      double max_percentile) {
  TORCH_CHECK(cumsum.numel() > 0, op, ": cumsum has no element");
  const Tensor counts = cumsum.flatten().to(at::kDouble);
  const double total = counts[-1].item<double>(),
               width = (all.greatest - all.least) / static_cast<double>(counts.numel());
  const auto below = [&](const Tensor& is_below) { return is_below.sum().item<double>(); };
  const double first = below(counts <= (1 - min_percentile) * total), last = below(counts < max_percentile * total);
  return {all.least + first * width, all.least + (last + 1) * width};
}

struct ScaleAndOffset {
  double scale, offset;
};

ScaleAndOffset scale_of(const ValueRange& range, bool with_offset) {
  constexpr double kSteps = 255, kGreatest = 127, kLeast = -128;
  if (!with_offset) return {std::max(std::abs(range.least), std::abs(range.greatest)) / kGreatest, 0};
  const double least = std::min(range.least, 0.0), greatest = std::max(range.greatest, 0.0);
  const double scale = (greatest - least) / kSteps;
  return {scale, scale == 0 ? 0 : std::nearbyint(-least / scale) + kLeast};
}

double squared_error(const Tensor& data, const ScaleAndOffset& by) {
  const Tensor codes = (at::round(data / by.scale) + by.offset).clamp(-128, 127);
  return ((codes - by.offset) * by.scale - data).square().sum(at::kDouble).item<double>();
}

Two ifmr(const Tensor& data, const Tensor& data_min, const Tensor& data_max, const Tensor& cumsum,
         double min_percentile, double max_percentile, double search_start, double search_end, double search_step,
         bool with_offset) {
  constexpr const char* kOp = "npu_ifmr";
  check_floating(kOp, "data", data);
  check_type(kOp, "cumsum", cumsum, {at::kInt});
  TORCH_CHECK(data_min.numel() == 1 && data_max.numel() == 1, kOp, ": data_min has ", data_min.numel(),
              " elements and data_max ", data_max.numel(), ", allowed is 1");
  TORCH_CHECK(search_step > 0 && search_end >= search_start, kOp, ": the search goes from ", search_start, " to ",
              search_end, " by ", search_step, ", allowed are a step over 0 and an end that is not before the start");
  const ValueRange range =
      kept_range(kOp, {data_min.item<double>(), data_max.item<double>()}, cumsum, min_percentile, max_percentile);
  const Tensor values = wide(data);
  ScaleAndOffset best = {1, 0};
  double least = std::numeric_limits<double>::infinity();
  const auto steps = static_cast<int64_t>(std::floor((search_end - search_start) / search_step + 1e-6));
  for (int64_t step = 0; step <= steps; ++step) {
    const double factor = search_start + static_cast<double>(step) * search_step;
    const ScaleAndOffset scale = scale_of({range.least * factor, range.greatest * factor}, with_offset);
    if (scale.scale <= 0) continue;
    const double error = squared_error(values, scale);
    if (error < least) best = scale;
    least = std::min(least, error);
  }
  const auto one = [&](double value) { return at::full({1}, value, data.options().dtype(at::kFloat)); };
  return {one(best.scale), one(best.offset)};
}

Two ifmr_meta(const Tensor& data, const Tensor&, const Tensor&, const Tensor&, double, double, double, double, double,
              bool) {
  const auto one = [&] { return data.new_empty_symint({1}, data.options().dtype(at::kFloat)); };
  return {one(), one()};
}

}  // namespace

void define_calibration(OperatorLibrary& library) {
  library.add({
      .schema = "npu::npu_ifmr(Tensor data, Tensor data_min, Tensor data_max, Tensor cumsum, float min_percentile, "
                "float max_percentile, float search_start, float search_end, float search_step, bool with_offset) -> "
                "(Tensor, Tensor)",
      .kernel = whole(&ifmr, &ifmr_meta),
      .definition = "Calibration of an int8 scale and offset for data, as CANN's AMCT does with input feature maps: a "
                    "search for the range with the least squared error of quantisation. cumsum, in int32, is the "
                    "cumulative histogram of data between data_min and data_max. The range begins at the first bin "
                    "whose cumsum is above (1 - min_percentile) * total and ends at the first that reaches "
                    "max_percentile * total; it is tried times each factor from search_start to search_end in steps "
                    "of search_step. Its scale is max(abs) / 127 with offset 0, or, if with_offset is True, (max - "
                    "min) / 255 with 0 in the range and an offset that maps min to -128. Which edges of bins count on "
                    "the device is not published. Results: scale and offset, [1], in float32.",
  });
}

}  // namespace npugraph::npu_ops
