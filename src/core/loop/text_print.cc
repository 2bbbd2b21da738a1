// SPDX-License-Identifier: Apache-2.0
#include "base/error.h"
#include "loop/op.h"
#include "loop/text.h"
#include "tensor/lexer.h"

namespace npugraph::loop {
namespace {

class Printer {
 public:
  explicit Printer(const Kernel& kernel) : kernel_(kernel) {}

  std::string print() {
    add("npugraph.loop ", kLoopVersion, " @", is_identifier(kernel_.name) ? kernel_.name : quote(kernel_.name), " {\n");
    for (const ScalarArg& scalar : kernel_.scalars) {
      add("  scalar ", scalar.name, " : ", name_in(kScalarKindNames, scalar.kind), "\n");
    }
    for (const Buffer& buffer : kernel_.buffers) print_buffer(buffer);
    print_block(kernel_.body);
    add("}\n");
    return std::move(out_);
  }

 private:
  template <typename... Parts>
  void add(const Parts&... parts) {
    (put(parts), ...);
  }
  void put(std::string_view text) { out_ += text; }
  void put(int64_t value) { out_ += std::to_string(value); }
  void put(int32_t value) { out_ += std::to_string(value); }
  void put(const Expr& e) { out_ += e.str(); }

  void put_typed(ValueId id) { add("%", id, " : ", name_of(dtype(id))); }
  DType dtype(ValueId id) const {
    NG_CHECK(id >= 0 && static_cast<size_t>(id) < kernel_.dtypes.size(), "value %", id, " has no type");
    return kernel_.dtypes[id];
  }
  const Buffer& buffer(int32_t index) const {
    NG_CHECK(index >= 0 && static_cast<size_t>(index) < kernel_.buffers.size(), "no buffer ", index);
    return kernel_.buffers[index];
  }

  void print_buffer(const Buffer& buffer) {
    add("  ", name_in(kBufferKindNames, buffer.kind), " ", buffer.name, " : ", name_of(buffer.dtype));
    if (is_scratch(buffer.kind)) add("[", buffer.elements, "]");
    add("\n");
  }

  void print_block(const std::vector<Stmt>& block) {
    indent_ += 2;
    for (const Stmt& stmt : block) {
      out_.append(indent_, ' ');
      std::visit([this](const auto& node) { print_stmt(node); }, stmt.node);
      add("\n");
    }
    indent_ -= 2;
  }

  void print_stmt(const Let& let);
  void print_stmt(const Load& load);
  void print_stmt(const Store& store);
  void print_stmt(const Check& check);
  void print_stmt(const For& loop);

  const Kernel& kernel_;
  size_t indent_ = 0;
  std::string out_;
};

void Printer::print_stmt(const Let& let) {
  put_typed(let.id);
  add(" = ", info_of(let.op).name);
  if (let.op == Op::kConstant) add(" ", Expr::constant(let.number));
  if (let.op == Op::kIndex || let.op == Op::kScalar) add(" ", let.index);
  for (size_t i = 0; i < let.args.size(); ++i) add(i == 0 ? " %" : ", %", let.args[i]);
}

void Printer::print_stmt(const Load& load) {
  put_typed(load.id);
  add(" = load ", buffer(load.buffer).name, "[", load.index, "]");
  if (load.mask != kNone) add(" where %", load.mask, " else %", load.otherwise);
  if (load.ahead) add(" ahead");
}

void Printer::print_stmt(const Store& store) {
  add("store ", buffer(store.buffer).name, "[", store.index, "] = %", store.value);
  if (store.mask != kNone) add(" where %", store.mask);
  if (store.streaming) add(" streaming");
}

void Printer::print_stmt(const Check& check) {
  add("check %", check.condition, ", ", quote(check.message));
  if (check.shown != kNone) add(", %", check.shown);
}

void Printer::print_stmt(const For& loop) {
  if (loop.kind != For::Kind::kSerial) add(name_in(kForKindNames, loop.kind), " ");
  add("for ", loop.var, " < ", loop.extent);
  if (!loop.grain.is_int(1)) add(" grain ", loop.grain);
  for (size_t i = 0; i < loop.scans.size(); ++i) {
    const Scan& scan = loop.scans[i];
    add(i == 0 ? " scan(" : ", ");
    put_typed(scan.result);
    add(" = ", name_in(kCombineNames, scan.combine), " %", scan.value);
    if (i + 1 == loop.scans.size()) add(")");
  }
  add(" {\n");
  print_block(loop.body);
  out_.append(indent_, ' ');
  add("}");
  for (size_t i = 0; i < loop.reductions.size(); ++i) {
    const Reduction& reduction = loop.reductions[i];
    add(i == 0 ? " reduce(" : ", ");
    put_typed(reduction.result);
    if (reduction.index_result != kNone) add(" at %", reduction.index_result);
    add(" = ", name_in(kCombineNames, reduction.combine), " %", reduction.value);
    if (i + 1 == loop.reductions.size()) add(")");
  }
}

}  // namespace

std::string print(const Kernel& kernel) { return Printer(kernel).print(); }

}  // namespace npugraph::loop
