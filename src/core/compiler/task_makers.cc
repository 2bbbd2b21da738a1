// SPDX-License-Identifier: Apache-2.0
#include "compiler/task_makers.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "base/error.h"
#include "codegen/attention/attention.h"
#include "codegen/convolution/convolution.h"
#include "codegen/jit/code_cache.h"
#include "codegen/kernel/kernel.h"
#include "codegen/matmul/matmul.h"
#include "codegen/quant/quant.h"
#include "codegen/task/compound.h"
#include "kernels/kernel_table.h"
#include "libraries/library.h"
#include "loop/slices.h"
#include "loop/text.h"
#include "ops/table.h"
#include "program/definition.h"
#include "program/parts.h"
#include "target/costs.h"
#include "target/target.h"

namespace npugraph::compiler {
namespace {

// Whether the number of rows is constant: the product of all sizes of the operand but the last.
codegen::RowCount rows_of(const program::Operand& operand) {
  const auto& sizes = operand.sizes;
  const bool fixed = sizes.empty() || std::ranges::all_of(sizes.begin(), sizes.end() - 1, &program::Dim::is_constant);
  return fixed ? codegen::RowCount::kFixed : codegen::RowCount::kVaries;
}

// kInStep if a product reads a buffer that an earlier product writes.
codegen::Order order_of(const program::Task& task) {
  std::vector<int32_t> written;
  for (const program::Operand& operand : task.operands) {
    if (operand.access == program::Access::kWrite) written.push_back(operand.buffer);
    if (operand.access == program::Access::kRead && std::ranges::count(written, operand.buffer) > 0)
      return codegen::Order::kInStep;
  }
  return codegen::Order::kApart;
}

std::string_view kernel_text(const program::Task& task) {
  const auto* text = task.args.empty() ? nullptr : std::get_if<std::string>(&task.args.front());
  if (text == nullptr) throw UserError(cat("task ", task.name, " carries no text of its kernel"));
  return *text;
}

// The task of a user's kernel, which carries the schema that the kernel had when the Program was compiled.
ng_task make_library_kernel(const program::Task& task, const std::string& place) {
  const libraries::Kernel* kernel = libraries::find(task.name);
  if (kernel == nullptr)
    throw UserError(cat("the operator ", task.name, place,
                        " needs the kernel of a library, and none that is loaded has it; ", libraries::kHowToLoad));
  if (!libraries::same(kernel->schema, ops::parse_schema(task.schema)))
    throw UserError(cat("the Program was compiled for another schema of ", task.name, place, ":\n  ", task.schema,
                        "\nthe kernel in '", kernel->library, "' is for\n  ", kernel->schema.text));
  try {
    return program::make_task(kernel->make, task);
  } catch (const UserError& error) {
    throw UserError(cat("the kernel of ", task.name, place, " in '", kernel->library, "': ", error.what()));
  }
}

ng_task make_kernel(const program::Program&, const program::Task& task) {
  const std::string place = task.source.empty() ? "" : cat(" (", task.source, ")");
  if (!task.schema.empty()) return make_library_kernel(task, place);
  const kernels::Kernel* kernel = kernels::find(task.name);
  if (kernel != nullptr) return program::make_task(kernel->make, task);
  throw UserError(cat("this build has no kernel \"", task.name, "\"", place));
}

// Products with weights of few bits.
ng_task make_quant(const program::Task& task, std::string_view text) {
  if (task.operands.empty()) throw UserError(cat("task ", task.name, " has no operands"));
  return codegen::make_quant(text, target::host_target(), rows_of(task.operands[0]));
}

ng_task make_loop(const program::Program&, const program::Task& task) {
  const std::string_view text = kernel_text(task);
  if (codegen::is_quant_text(text)) return make_quant(task, text);
  return codegen::make_kernel_task(loop::parse(text, task.name), target::host_target());
}

DType result_type(const loop::Kernel& factor) {
  const auto slices = loop::find_slices(factor);
  if (!slices) throw UserError(cat("the kernel ", factor.name, " computes no rows of a factor"));
  return factor.buffers[slices->result].dtype;
}

// Matrix products as lowering writes them: all share the first factor, the other factors have one type, and each
// product has an epilogue. In front of it may stand the kernel that computes the second factor of the product.
ng_task make_products(const program::Program&, const program::Task& task) {
  const std::string_view text = kernel_text(task);
  if (codegen::is_quant_text(text)) return make_quant(task, text);
  if (task.operands.size() < 2) throw UserError(cat("task ", task.name, " has no factors"));
  std::vector<codegen::MatmulSpec> specs;
  std::optional<loop::Kernel> factor;
  for (loop::Kernel& kernel : loop::parse_all(text, task.name)) {
    if (kernel.name == loop::kFactor) {
      factor = std::move(kernel);
      continue;
    }
    codegen::MatmulSpec& spec = specs.emplace_back();
    spec.a = task.operands[0].dtype;
    spec.b = factor ? result_type(*factor) : task.operands[1].dtype;
    spec.b_is_nk = factor.has_value();
    spec.factor = std::exchange(factor, {});
    spec.epilogue = std::move(kernel);
  }
  return codegen::make_matmuls(specs, target::host_target(), rows_of(task.operands[0]), order_of(task));
}

// Operand 0 is the queries; keys, values and the result have their type.
ng_task make_attention(const program::Program&, const program::Task& task) {
  if (task.operands.empty()) throw UserError(cat("task ", task.name, " has no queries"));
  const program::Operand& queries = task.operands[0];
  return codegen::make_attention(loop::parse_attention(kernel_text(task), task.name), queries.dtype,
                                 target::host_target(), rows_of(queries));
}

// Operand 0 is the weights; the image has their type. An epilogue may follow the first line of the text.
ng_task make_convolution(const program::Program&, const program::Task& task) {
  const std::string_view text = kernel_text(task);
  if (task.operands.empty()) throw UserError(cat("task ", task.name, " has no weights"));
  codegen::ConvolutionSpec spec{.dtype = task.operands[0].dtype};
  const size_t end = text.find('\n');
  spec.convolution = loop::parse_convolution(text.substr(0, end), task.name);
  if (end != std::string_view::npos) spec.epilogue = loop::parse(text.substr(end + 1), task.name);
  return codegen::make_convolution(spec, target::host_target());
}

std::vector<codegen::Part> make_parts(const program::Program& program, const program::Task& task,
                                      const std::vector<program::Task>& tasks) {
  std::vector<codegen::Part> parts;
  try {
    for (const program::Task& part : tasks) {
      const std::string nodes = part.origin.empty() ? "" : cat(", from ", part.origin);
      parts.push_back({.task = make_task(program, part),
                       .buffers = static_cast<uint32_t>(part.operands.size()),
                       .scalars = static_cast<uint32_t>(part.scalars.size()),
                       .label = cat("part ", parts.size(), " of ", task.name, ", ", part.name, nodes,
                                    part.source.empty() ? "" : " at ", part.source)});
    }
  } catch (...) {
    const codegen::Parts dropped(std::move(parts));  // its destructor destroys them
    throw;
  }
  return parts;
}

ng_task make_super_kernel(const program::Program& program, const program::Task& task) {
  const program::Parts super = program::parts_of(task);
  return codegen::make_sequence(make_parts(program, task, super.tasks), super.workers);
}

ng_task make_group(const program::Program& program, const program::Task& task) {
  const program::Parts group = program::parts_of(task);
  return codegen::make_group(make_parts(program, task, group.tasks),
                             {.parts = {group.nanoseconds.begin(), group.nanoseconds.end()},
                              .region = target::costs_of(target::host_target()).region});
}

}  // namespace

const runtime::TaskMakers& task_makers() {
  using program::TaskKind;
  static const runtime::TaskMakers makers = [] {
    runtime::TaskMakers all;
    all.add(TaskKind::kKernel, make_kernel)
        .add(TaskKind::kLoop, make_loop)
        .add(TaskKind::kMatmul, make_products)
        .add(TaskKind::kAttention, make_attention)
        .add(TaskKind::kConvolution, make_convolution)
        .add(TaskKind::kSuperKernel, make_super_kernel)
        .add(TaskKind::kGroup, make_group);
    return all;
  }();
  return makers;
}

ng_task make_task(const program::Program& program, const program::Task& task) {
  return task_makers().make(program, task);
}

void drop_unused_code() { codegen::drop_unused_code(); }

}  // namespace npugraph::compiler
