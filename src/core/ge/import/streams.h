// SPDX-License-Identifier: Apache-2.0
// Attributes of operators that say where and how they run, on the Graph: streams and limits of cores become sections,
// super kernel scopes become marks.
//
//   Relu _user_stream_label=side, Tanh                  Relu in section 1 of stream 1
//   Add of both                              ->         Tanh in section 0 of stream 0
//                                                       Add in section 2 of stream 0, after section 1
//
// Operators without a label are on stream 0. In Ascend IR data and control edges order operators, whatever their
// streams; sections order nodes alone (ir/graph.h), so a section begins where one stream reads or writes what another
// one has written or read.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "ge/model.h"
#include "ir/graph.h"
#include "tensor/core_limits.h"

namespace npugraph::ge {

namespace attr {
// Of an operator: the name of its stream.
inline constexpr std::string_view kStream = "_user_stream_label";
// Of an operator, texts: the most cores for it, if it is a product, a convolution or attention, and if it is not.
inline constexpr std::string_view kCubeCores = "_op_aicore_num";
inline constexpr std::string_view kVectorCores = "_op_vectorcore_num";
// Of an operator: the name of its super kernel, and options of that.
inline constexpr std::string_view kSuperKernel = "_super_kernel_scope";
inline constexpr std::string_view kSuperKernelOptions = "_super_kernel_options";
}  // namespace attr

class Streams {
 public:
  // `limits` hold for all operators; those that operators state are lower, or do not count.
  explicit Streams(const CoreLimits& limits) : limits_(limits) {}

  // That of the stream of the operator, 0 for one without a label. Labels are counted as they come.
  int32_t number_of(const OpDef& op);
  // The nodes of the Graph from `first` up to `end` are those of `op`. Operators come in the order of the Graph.
  void add(const OpDef& op, ir::NodeId first, ir::NodeId end);
  // Gives the nodes their sections and adds the marks. Nodes of no operator are on stream 0.
  void settle(ir::Graph& graph) const;

 private:
  struct Part {
    const OpDef* op = nullptr;
    int32_t stream = 0;
    ir::NodeId first = 0, end = 0;
  };

  void add_sections(ir::Graph& graph) const;
  void add_marks(ir::Graph& graph) const;

  const CoreLimits limits_;
  std::map<std::string, int32_t, std::less<>> streams_ = {{"", 0}};
  std::vector<Part> parts_;
};

}  // namespace npugraph::ge
