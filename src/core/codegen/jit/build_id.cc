// SPDX-License-Identifier: Apache-2.0
#include "codegen/jit/build_id.h"

#include <algorithm>
#include <cstring>
#include <string_view>

#include <elf.h>
#include <link.h>

namespace npugraph::codegen {
namespace {

constexpr std::string_view kOwner("GNU", 4);  // with the terminating zero

struct Search {
  uintptr_t address;  // in the object whose build id is wanted
  std::string found;
};

bool covers(const dl_phdr_info& object, uintptr_t address) {
  for (int i = 0; i < object.dlpi_phnum; ++i) {
    const auto& part = object.dlpi_phdr[i];
    const uintptr_t begin = object.dlpi_addr + part.p_vaddr;
    if (part.p_type == PT_LOAD && address >= begin && address - begin < part.p_memsz) return true;
  }
  return false;
}

// The build id among the notes of one segment; empty if there is none.
std::string find_build_id(std::string_view notes, size_t alignment) {
  const auto rounded = [&](size_t bytes) { return (bytes + alignment - 1) / alignment * alignment; };
  ElfW(Nhdr) header;
  while (notes.size() >= sizeof(header)) {
    std::memcpy(&header, notes.data(), sizeof(header));
    const size_t data_at = rounded(sizeof(header) + header.n_namesz);
    if (data_at + header.n_descsz > notes.size()) break;
    if (header.n_type == NT_GNU_BUILD_ID && notes.substr(sizeof(header), header.n_namesz) == kOwner)
      return std::string(notes.substr(data_at, header.n_descsz));
    notes.remove_prefix(std::min(data_at + rounded(header.n_descsz), notes.size()));
  }
  return "";
}

int visit(dl_phdr_info* object, size_t, void* context) {
  auto& search = *static_cast<Search*>(context);
  if (!covers(*object, search.address)) return 0;
  for (int i = 0; i < object->dlpi_phnum && search.found.empty(); ++i) {
    const auto& part = object->dlpi_phdr[i];
    if (part.p_type != PT_NOTE) continue;
    const auto* begin = reinterpret_cast<const char*>(object->dlpi_addr + part.p_vaddr);
    search.found = find_build_id({begin, part.p_memsz}, part.p_align == 8 ? 8 : 4);
  }
  return 1;
}

}  // namespace

std::string build_id_of(const void* address) {
  Search search{.address = reinterpret_cast<uintptr_t>(address), .found = {}};
  dl_iterate_phdr(visit, &search);
  return search.found;
}

const std::string& build_id() {
  static const std::string id = build_id_of(&kOwner);
  return id;
}

}  // namespace npugraph::codegen
