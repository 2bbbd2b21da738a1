// SPDX-License-Identifier: Apache-2.0
#include "compiler/defect_report.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "compiler/compiler_testing.h"

namespace npugraph::compiler {
namespace {

namespace fs = std::filesystem;

// The directory in which this process writes reports. It is set before anything reads the environment.
const std::string& report_directory() {
  static const std::string directory = [] {
    std::string name = fs::temp_directory_path() / "defect_report_test.XXXXXX";
    ::mkdtemp(name.data());
    ::setenv("NPUGRAPH_REPORT_DIR", name.c_str(), 1);
    return name;
  }();
  return directory;
}
const std::string& set_early = report_directory();

class DefectReport : public testing::Test {
 protected:
  void TearDown() override {
    for (const auto& entry : fs::directory_iterator(report_directory())) fs::remove(entry);
  }
};

std::string contents(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Returns the end of the message, which names the file of the report; empty if the message names none.
std::string file_in(const std::string& message) {
  const std::string lead = "\nThe graph is in ";
  const size_t at = message.find(lead);
  return at == std::string::npos ? "" : message.substr(at + lead.size());
}

class BrokenCatalog : public NoCatalog {
 public:
  explicit BrokenCatalog(std::function<void()> fail) : fail_(std::move(fail)) {}
  bool can_run(const ir::Op&) const override { return fail_(), true; }

 private:
  std::function<void()> fail_;
};

// None of our kernels computes erfinv.
constexpr std::string_view kProduct = R"(npugraph.graph 1 @product {
  input %x : f32[64, 64] user "x"
  %y : f32[64, 64] = aten.erfinv(%x)
  return %y
})";

std::string message_of_failed_compile(const std::function<void()>& fail) {
  const BrokenCatalog catalog(fail);
  try {
    compile_text(kProduct, catalog);
  } catch (const InternalError& error) {
    return error.what();
  }
  return "nothing was thrown";
}

TEST_F(DefectReport, ABrokenInvariantWritesTheGraphAndNamesTheFile) {
  const std::string message = message_of_failed_compile([] { NG_CHECK(1 == 2, "one is two"); });
  EXPECT_TRUE(message.starts_with("internal error: one is two (check `1 == 2` at ")) << message;
  EXPECT_NE(message.find("This is a bug in npugraph"), std::string::npos);
  const std::string path = file_in(message);
  EXPECT_TRUE(path.starts_with(report_directory() + "/npugraph-report-" + std::to_string(::getpid()) + "-")) << path;
  const std::string report = contents(path);
  EXPECT_NE(report.find("one is two"), std::string::npos);
  EXPECT_NE(report.find("npugraph.graph 1 @product {"), std::string::npos);
  EXPECT_NE(report.find("aten.erfinv(%x)"), std::string::npos);
  struct stat status = {};
  ASSERT_EQ(::stat(path.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0600u);
}

TEST_F(DefectReport, SoDoesAnExceptionOfTheStandardLibrary) {
  const std::string message = message_of_failed_compile([] { std::string("ab").at(7); });
  EXPECT_TRUE(message.starts_with("internal error: ")) << message;
  EXPECT_NE(contents(file_in(message)).find("@product"), std::string::npos);
}

TEST_F(DefectReport, EveryReportHasAFileOfItsOwn) {
  const auto fail = [] { NG_CHECK(false); };
  EXPECT_NE(file_in(message_of_failed_compile(fail)), file_in(message_of_failed_compile(fail)));
  EXPECT_EQ(std::distance(fs::directory_iterator(report_directory()), {}), 2);
}

TEST_F(DefectReport, AMistakeOfTheUserWritesNone) {
  const BrokenCatalog catalog([] { throw UserError("yours"); });
  EXPECT_THROW(compile_text(kProduct, catalog), UserError);
  EXPECT_TRUE(fs::is_empty(report_directory()));
}

TEST_F(DefectReport, TheMessageIsOneLineAndTheRestIsInTheFile) {
  const ir::Graph graph = ir::parse(kProduct, "test", ops::registry());
  const std::string message = report_defect("broken\nat length\n", graph, report_directory());
  EXPECT_TRUE(message.starts_with("broken\nThe graph is in ")) << message;
  EXPECT_EQ(std::ranges::count(message, '\n'), 1) << message;
  EXPECT_TRUE(contents(file_in(message)).starts_with("broken\nat length\n"));
}

// While this object lives, temporary files are made in `path`.
class TemporaryDirectory {
 public:
  explicit TemporaryDirectory(const std::string& path) { ::setenv("TMPDIR", path.c_str(), 1); }
  ~TemporaryDirectory() { ::unsetenv("TMPDIR"); }
};

TEST_F(DefectReport, WhereADirectoryIsMissingTheReportIsATemporaryFile) {
  const ir::Graph graph = ir::parse(kProduct, "test", ops::registry());
  const TemporaryDirectory temporary(report_directory());
  const std::string message = report_defect("broken", graph, report_directory() + "/missing");
  EXPECT_TRUE(message.starts_with("broken\nThe graph is in " + report_directory() + "/npugraph-report-")) << message;
  EXPECT_NE(contents(file_in(message)).find("@product"), std::string::npos);
}

TEST_F(DefectReport, WithoutAFileTheMessageCarriesTheGraph) {
  const ir::Graph graph = ir::parse(kProduct, "test", ops::registry());
  const TemporaryDirectory temporary(report_directory() + "/absent");
  const std::string message = report_defect("broken", graph, report_directory() + "/missing");
  EXPECT_TRUE(message.starts_with("broken\n")) << message;
  EXPECT_NE(message.find("aten.erfinv(%x)"), std::string::npos);
  EXPECT_NE(message.find("cannot write the report to " + report_directory() + "/missing"), std::string::npos);
  EXPECT_TRUE(message.ends_with(": No such file or directory")) << message;
}

}  // namespace
}  // namespace npugraph::compiler
