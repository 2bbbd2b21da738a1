// SPDX-License-Identifier: Apache-2.0
// Saved Programs: a header (magic, version, sizes, checksum), metadata, the text form, and the bytes of the constants,
// aligned to 64 so that they can be mapped. Nothing in a file is executed or unpickled; every size is checked before
// use.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "program/program.h"

namespace npugraph::program {

// Facts that travel with a Program: what it was made with, by name ("torch" -> "2.13.0").
using Metadata = std::map<std::string, std::string>;

// The version of the task ABI, which save() adds and load() checks.
inline constexpr const char* kAbiKey = "task ABI";

// Writes atomically (a temporary file in the same directory, then rename). Others may read it if the umask lets them.
// UserError when the Program has opaque constants or tasks of this process (Python, nested, event), which the message
// names, when bytes of a constant are not loaded, or when the file cannot be written.
void save(const Program& program, const Metadata& metadata, const std::string& path);

struct Loaded {
  Program program;
  Metadata metadata;
};

// Maps the file and keeps the mapping alive through the constants; what is written to them stays in this process.
// UserError that names the path and what is wrong: not a Program, another version, damaged (checksum), owned by neither
// this user nor root, writable by others, truncated, or made with another value of one of the facts in `running`.
Loaded load(const std::string& path, const Metadata& running = {});

// Whether a file that begins with these bytes is one that save() wrote.
bool is_saved(std::string_view begin);

}  // namespace npugraph::program
