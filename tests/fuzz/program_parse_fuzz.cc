// SPDX-License-Identifier: Apache-2.0
// libFuzzer entry: any bytes are either refused with a UserError or read into a Program whose text form round-trips.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/error.h"
#include "program/text.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace npugraph;
  std::string text;
  try {
    text = print(program::parse({reinterpret_cast<const char*>(data), size}, "fuzz"));
  } catch (const UserError&) {
    return 0;
  }
  NG_CHECK(print(program::parse(text, "printed")) == text, "the text form does not round-trip:\n", text);
  return 0;
}
