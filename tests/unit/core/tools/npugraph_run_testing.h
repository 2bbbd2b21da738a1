// SPDX-License-Identifier: Apache-2.0
// npugraph-run as a user starts it, on files in a temporary folder.
#pragma once

#include <array>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "temporary_folder.h"
#include "tensor/npy.h"

namespace npugraph::tools {

struct Outcome {
  int status = -1;
  std::string text;  // stdout and stderr
};

class NpugraphRun : public testing::Test {
 protected:
  std::string path(const std::string& name) const { return (folder_ / name).string(); }

  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(path(name)) << text;
    return path(name);
  }

  template <typename T>
  std::string write(const std::string& name, DType dtype, const std::vector<int64_t>& sizes,
                    const std::vector<T>& values) const {
    std::vector<char> bytes(values.size() * sizeof(T));
    std::memcpy(bytes.data(), values.data(), bytes.size());
    write_npy(path(name), dtype, sizes, bytes);
    return path(name);
  }

  std::vector<float> floats(const std::string& name) const {
    const NpyArray array = read_npy(path(name));
    std::vector<float> values(array.data.size() / 4);
    std::memcpy(values.data(), array.data.data(), array.data.size());
    return values;
  }

  Outcome run(const std::string& arguments) const {
    FILE* pipe = popen((std::string(TEST_EMULATOR NPUGRAPH_RUN) + " " + arguments + " 2>&1").c_str(), "r");
    Outcome outcome;
    std::array<char, 4096> buffer;
    while (const size_t n = fread(buffer.data(), 1, buffer.size(), pipe)) outcome.text.append(buffer.data(), n);
    outcome.status = pclose(pipe);
    return outcome;
  }

  TemporaryFolder temporary_;
  std::filesystem::path folder_ = temporary_.path();
};

}  // namespace npugraph::tools
