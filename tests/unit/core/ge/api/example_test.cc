// SPDX-License-Identifier: Apache-2.0
// The example program, as a user starts it.
#include <array>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <regex>
#include <set>
#include <string>

#include "ge/api/api_testing.h"
#include "temporary_folder.h"

namespace npugraph::ge {
namespace {

std::string output_of(const std::string& command, int& status) {
  FILE* pipe = popen((command + " 2>&1").c_str(), "r");
  std::string text;
  std::array<char, 4096> buffer;
  while (const size_t n = fread(buffer.data(), 1, buffer.size(), pipe)) text.append(buffer.data(), n);
  status = pclose(pipe);
  return text;
}

TEST(Example, RunsAModel) {
  const TemporaryFolder folder;
  const std::string model = (folder.path() / "model.air").string();
  ASSERT_OK(perceptron(8).SaveToFile(model.c_str()));
  int status = -1;
  const std::string said = output_of(cat(TEST_EMULATOR GE_ENGINE_EXAMPLE " ", model, " 8x16"), status);
  EXPECT_EQ(status, 0) << said;
  EXPECT_NE(said.find("9 operators"), std::string::npos) << said;
  EXPECT_NE(said.find(", stream 0: "), std::string::npos) << said;
  EXPECT_NE(said.find("run, memory moved, run: equal\nrun on a stream: equal\n"), std::string::npos) << said;
}

TEST(Example, NamesWhatIsWrong) {
  int status = -1;
  EXPECT_EQ(output_of(std::string(TEST_EMULATOR GE_ENGINE_EXAMPLE " gone.air"), status),
            "Graph::LoadFromFile: cannot read 'gone.air': No such file or directory\n");
  EXPECT_NE(status, 0);
}

// It needs neither torch nor Python, but the system's own libraries, and those of the sanitizers it is built with.
TEST(Example, NeedsTheSystemAlone) {
  int status = -1;
  const std::string dynamic = output_of(cat("readelf -d ", GE_ENGINE_EXAMPLE), status);
  ASSERT_EQ(status, 0) << dynamic;
  const std::regex needed(R"(\(NEEDED\).*\[(\w[\w+-]*)\.so)");
  const std::set<std::string> of_system = {"libc",    "libm",     "libstdc++", "libgcc_s",        "libpthread",
                                           "libdl",   "librt",    "libz",      "ld-linux-x86-64", "ld-linux-aarch64",
                                           "libasan", "libubsan", "libtsan"};
  int found = 0;
  for (std::sregex_iterator at(dynamic.begin(), dynamic.end(), needed); at != std::sregex_iterator(); ++at) {
    EXPECT_TRUE(of_system.contains((*at)[1])) << (*at)[1];
    ++found;
  }
  EXPECT_GT(found, 0) << dynamic;
}

}  // namespace
}  // namespace npugraph::ge
