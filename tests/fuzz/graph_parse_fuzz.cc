// SPDX-License-Identifier: Apache-2.0
// libFuzzer entry: any bytes are either refused with a UserError or read into a Graph whose text form round-trips.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/error.h"
#include "ir/text.h"
#include "ops/table.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace npugraph;
  std::string text;
  try {
    const ir::Graph graph = ir::parse({reinterpret_cast<const char*>(data), size}, "fuzz", ops::registry());
    if (!ir::verify(graph).empty()) return 0;
    ops::verify_types(graph);
    text = print(graph);
  } catch (const UserError&) {
    return 0;
  }
  NG_CHECK(print(ir::parse(text, "printed", ops::registry())) == text, "the text form does not round-trip:\n", text);
  return 0;
}
