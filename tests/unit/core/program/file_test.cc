// SPDX-License-Identifier: Apache-2.0
#include "program/file.h"

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "abi/task.h"
#include "base/error.h"
#include "base/files.h"
#include "program/file_format.h"
#include "program/random_program.h"
#include "program/sample_program.h"
#include "program/text.h"
#include "temporary_folder.h"

namespace npugraph::program {

namespace {

namespace fs = std::filesystem;

class ProgramFile : public ::testing::Test {
 protected:
  std::string contents() const {
    std::ifstream file(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void overwrite(std::string_view bytes) const {
    std::ofstream(path_, std::ios::binary | std::ios::trunc)
        .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  }
  std::string refusal() const {
    try {
      load(path_);
      return "nothing was refused";
    } catch (const UserError& error) {
      return error.what();
    }
  }
  static std::string refusal_to_save(const Program& program, const std::string& path) {
    try {
      save(program, {}, path);
      return "nothing was refused";
    } catch (const UserError& error) {
      return error.what();
    }
  }

  TemporaryFolder folder_;
  fs::path directory_ = folder_.path();
  std::string path_ = directory_ / "saved.program";
};

// Two constants, so that the second one has to be aligned.
Program small_program() {
  Program program = testing::random_program(1, {.tasks = 2});
  auto bytes = std::make_shared<std::string>("some bytes");
  Constant constant;
  constant.name = "more";
  constant.dtype = DType::kU8;
  constant.sizes = {10};
  constant.strides = {1};
  constant.bytes = 10;
  constant.data = bytes->data();
  constant.owner = bytes;
  program.constants.push_back(constant);
  return program;
}

TEST_F(ProgramFile, WhatWasSavedIsLoaded) {
  const Program program = small_program();
  const Metadata metadata = {{"torch", "2.13.0"}, {"", "empty \"key\""}, {"line\nbreak", std::string("\0\xff", 2)}};
  save(program, metadata, path_);
  const Loaded loaded = load(path_);
  EXPECT_EQ(print(loaded.program), print(program));
  Metadata expected = metadata;
  expected[kAbiKey] = std::to_string(NG_TASK_ABI_VERSION);
  EXPECT_EQ(loaded.metadata, expected);
  for (size_t i = 0; i < program.constants.size(); ++i) {
    const Constant& constant = loaded.program.constants[i];
    EXPECT_EQ(reinterpret_cast<uintptr_t>(constant.data) % 64, 0u);
    EXPECT_EQ(std::memcmp(constant.data, program.constants[i].data, constant.bytes), 0);
  }
}

TEST_F(ProgramFile, ConstantsOutliveTheProgramAndTheFile) {
  save(small_program(), {}, path_);
  Constant constant = load(path_).program.constants[1];
  fs::remove(path_);
  EXPECT_EQ(std::memcmp(constant.data, "some bytes", 10), 0);
}

TEST_F(ProgramFile, WritingToAConstantLeavesTheFileAlone) {
  save(small_program(), {}, path_);
  const std::string before = contents();
  const Loaded loaded = load(path_);
  *static_cast<char*>(const_cast<void*>(loaded.program.constants[1].data)) = 'S';
  EXPECT_EQ(contents(), before);
}

TEST_F(ProgramFile, RandomProgramsRoundTrip) {
  for (uint32_t seed = 0; seed < 20; ++seed) {
    const Program program = testing::random_program(seed);
    save(program, {}, path_);
    EXPECT_EQ(print(load(path_).program), print(program));
  }
}

TEST_F(ProgramFile, OthersMayReadItAsTheUmaskSays) {
  for (const auto& [mask, mode] : {std::pair{0022u, 0644u}, {0077u, 0600u}, {0027u, 0640u}, {0002u, 0644u}}) {
    const mode_t before = ::umask(mask);
    save(small_program(), {}, path_);
    ::umask(before);
    struct stat status = {};
    ASSERT_EQ(::stat(path_.c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 07777, mode);
    EXPECT_NO_THROW(load(path_));
  }
}

TEST_F(ProgramFile, SavingReplacesAsAWhole) {
  overwrite("something old");
  save(small_program(), {}, path_);
  const Program bigger = testing::random_program(3);
  save(bigger, {}, path_);
  EXPECT_EQ(print(load(path_).program), print(bigger));
  EXPECT_EQ(std::distance(fs::directory_iterator(directory_), {}), 1) << "a temporary file was left behind";
}

TEST_F(ProgramFile, AFailedSaveLeavesNothing) {
  const std::string missing = directory_ / "missing" / "saved.program";
  EXPECT_EQ(refusal_to_save(small_program(), missing),
            "cannot write the Program to " + missing + ": No such file or directory");
  fs::create_directory(path_);
  EXPECT_EQ(refusal_to_save(small_program(), path_), "cannot write the Program to " + path_ + ": Is a directory");
  EXPECT_EQ(std::distance(fs::directory_iterator(directory_), {}), 1);
}

TEST_F(ProgramFile, PythonTasksCannotBeSaved) {
  Program program = small_program();
  Task& task = program.tasks[1];
  task.kind = TaskKind::kPython;
  task.callable = 3;
  EXPECT_EQ(refusal_to_save(program, path_),
            "cannot save the Program to " + path_ +
                ": task 1 'test.mix' calls Python, for node node_1 at model.py:1 in forward");
  EXPECT_FALSE(fs::exists(path_));
}

TEST_F(ProgramFile, OpaqueConstantsCannotBeSaved) {
  Program program = small_program();
  for (Buffer& buffer : program.buffers) buffer.opaque = buffer.opaque || buffer.cls == BufferClass::kConstant;
  EXPECT_EQ(refusal_to_save(program, path_),
            "cannot save the Program to " + path_ + ": constant 'table' is not strided memory");
}

TEST_F(ProgramFile, ConstantsWithoutBytesCannotBeSaved) {
  Program program = small_program();
  program.constants[1].data = nullptr;
  EXPECT_EQ(refusal_to_save(program, path_),
            "cannot save the Program to " + path_ + ": the bytes of constant 'more' are not loaded");
}

TEST_F(ProgramFile, WhatIsNoProgram) {
  const std::string start = "cannot load a Program from " + path_ + ": ";
  EXPECT_EQ(refusal(), start + "No such file or directory");
  overwrite("");
  EXPECT_EQ(refusal(), start + "it is not a saved Program");
  overwrite(std::string(1000, 'x'));
  EXPECT_EQ(refusal(), start + "it is not a saved Program");
  fs::remove(path_);
  fs::create_directory(path_);
  EXPECT_EQ(refusal(), start + "it is not a regular file");
  fs::remove(path_);
  ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
  EXPECT_EQ(refusal(), start + "it is not a regular file");
}

TEST_F(ProgramFile, AnotherVersionIsNamed) {
  save(small_program(), {}, path_);
  std::string bytes = contents();
  bytes[8] = 7;
  overwrite(bytes);
  EXPECT_EQ(refusal(), "cannot load a Program from " + path_ + ": it has version 7; this build reads version 2");
}

TEST_F(ProgramFile, WhatItWasMadeWithMustBeThere) {
  save(small_program(), {{"torch", "2.13.0"}}, path_);
  EXPECT_NO_THROW(load(path_, {{"torch", "2.13.0"}}));
  const auto refusal_of = [&](const Metadata& running) -> std::string {
    try {
      load(path_, running);
    } catch (const UserError& error) {
      return error.what();
    }
    return "nothing was refused";
  };
  const std::string start = "cannot load a Program from " + path_ + ": ";
  EXPECT_EQ(refusal_of({{"torch", "2.14.0"}}), start + "it was made with torch 2.13.0; this process has 2.14.0");
  EXPECT_EQ(refusal_of({{"engine", "3"}}), start + "it does not say with which engine it was made");
  // Changes the version of the ABI in the file, and computes its checksum anew.
  save(small_program(), {}, path_);
  std::string bytes = contents();
  const size_t at = bytes.find(cat("\"task ABI\" \"", NG_TASK_ABI_VERSION, "\""));
  ASSERT_NE(at, std::string::npos);
  bytes[at + 12] = '8';
  FileHeader header;
  std::memcpy(&header, bytes.data(), sizeof header);
  header.checksum = 0;
  Checksum checksum;
  checksum.add(std::as_bytes(std::span(&header, 1)));
  checksum.add(std::as_bytes(std::span(bytes).subspan(sizeof header)));
  header.checksum = checksum.value();
  std::memcpy(bytes.data(), &header, sizeof header);
  overwrite(bytes);
  EXPECT_EQ(refusal(), start + cat("it was made with task ABI 8; this process has ", NG_TASK_ABI_VERSION));
}

TEST_F(ProgramFile, FilesThatOthersMayWriteAreRefused) {
  save(small_program(), {}, path_);
  ASSERT_EQ(::chmod(path_.c_str(), 0622), 0);
  EXPECT_EQ(refusal(), "cannot load a Program from " + path_ + ": others may write it: run chmod go-w on it");
}

TEST_F(ProgramFile, FilesOfOtherUsersAreRefused) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a file to another user";
  save(small_program(), {}, path_);
  ASSERT_EQ(::chown(path_.c_str(), 12345, 12345), 0);
  EXPECT_EQ(refusal(),
            "cannot load a Program from " + path_ + ": it is owned by user 12345, not by this user, 0, or by root");
}

TEST_F(ProgramFile, FilesOfRootAreTaken) {
  // Every image of a container has them. For root they are its own.
  save(small_program(), {}, path_);
  if (::geteuid() == 0) {
    fs::permissions(directory_, fs::perms(0755));
    ASSERT_EQ(::seteuid(12345), 0);
    EXPECT_NO_THROW(load(path_));
    ASSERT_EQ(::seteuid(0), 0);
    return;
  }
  struct stat status = {};
  status.st_mode = 0644;
  EXPECT_EQ(why_not_trusted(status), "");
}

TEST_F(ProgramFile, EveryFlippedBitIsNoticed) {
  save(small_program(), {{"torch", "2.13.0"}}, path_);
  const std::string bytes = contents();
  std::fstream file(path_, std::ios::binary | std::ios::in | std::ios::out);
  const auto put = [&](size_t i, int value) {
    file.seekp(static_cast<std::streamoff>(i)).put(static_cast<char>(value)).flush();
  };
  for (size_t i = 0; i < bytes.size(); ++i) {
    put(i, bytes[i] ^ (1 << (i % 8)));
    ASSERT_THROW(load(path_), UserError) << "byte " << i;
    put(i, bytes[i]);
  }
  EXPECT_NO_THROW(load(path_));
}

TEST_F(ProgramFile, EveryTruncationIsNoticed) {
  save(small_program(), {{"torch", "2.13.0"}}, path_);
  const size_t whole = contents().size();
  fs::resize_file(path_, whole + 1);
  EXPECT_THROW(load(path_), UserError);
  for (size_t size = whole; size-- > 0;) {
    fs::resize_file(path_, size);
    ASSERT_THROW(load(path_), UserError) << size << " bytes";
  }
}

TEST_F(ProgramFile, DamageIsTold) {
  save(small_program(), {}, path_);
  std::string bytes = contents();
  overwrite(bytes.substr(0, 500));
  EXPECT_EQ(refusal(), "cannot load a Program from " + path_ + ": it is damaged: 500 bytes where there should be " +
                           std::to_string(bytes.size()));
  bytes.back() = 1;
  overwrite(bytes);
  EXPECT_EQ(refusal(), "cannot load a Program from " + path_ + ": it is damaged: the checksum does not match");
}

uint64_t sum(const std::vector<std::vector<std::byte>>& pieces) {
  Checksum checksum;
  for (const auto& piece : pieces) checksum.add(piece);
  return checksum.value();
}

TEST(Checksum, PiecesCountAsIfPadded) {
  const std::vector<std::byte> head(100, std::byte{3});
  const std::vector<std::byte> tail(64, std::byte{4});
  std::vector<std::byte> whole = head;
  whole.resize(128);
  whole.insert(whole.end(), tail.begin(), tail.end());
  EXPECT_EQ(sum({head, tail}), sum({whole}));
}

TEST(Checksum, OrderAndLengthCount) {
  const std::vector<std::byte> a(64, std::byte{1});
  const std::vector<std::byte> b(64, std::byte{2});
  const std::vector<std::byte> zeros(64);
  EXPECT_NE(sum({a, b}), sum({b, a}));
  EXPECT_NE(sum({a}), sum({a, zeros}));
  EXPECT_NE(sum({}), sum({zeros}));
}

TEST(Checksum, EverySingleBitCounts) {
  std::vector<std::byte> data(192);
  const uint64_t before = sum({data});
  for (size_t i = 0; i < data.size() * 8; ++i) {
    data[i / 8] ^= std::byte(1 << (i % 8));
    ASSERT_NE(sum({data}), before) << "bit " << i;
    data[i / 8] ^= std::byte(1 << (i % 8));
  }
}

TEST(FileFormat, Padding) {
  EXPECT_EQ(padding_after(0), 0u);
  EXPECT_EQ(padding_after(1), 63u);
  EXPECT_EQ(padding_after(64), 0u);
}

}  // namespace

}  // namespace npugraph::program
