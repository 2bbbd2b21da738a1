// SPDX-License-Identifier: Apache-2.0
// A task that writes outside of its memory is named.
#include "runtime/memory/red_zones.h"

#include "runtime/runtime_test_util.h"
#include "runtime/watch/ledger.h"

namespace npugraph::runtime {
namespace {

// A host that allocates objects with red zones.
class ZonedHost : public TestHost {
 public:
  void* allocate(int64_t bytes, void** data) override {
    void* object = TestHost::allocate(bytes + 2 * kZone, data);
    *data = static_cast<std::byte*>(*data) + kZone;
    return object;
  }
  int64_t red_zone_bytes() const override { return kZone; }

 private:
  static constexpr int64_t kZone = 64;
};

class RedZonesTest : public testing::Test {
 protected:
  RedZonesTest() { set_red_zones(true); }
  ~RedZonesTest() override { set_red_zones(false); }

  // Calls kChain with three elements and returns the message of the error that it throws; empty if it throws none.
  std::string error_of_chain(int calls = 1) {
    const auto executable = make(host, kChain);
    Argument x(Floats{1, 2, 3});
    try {
      for (int i = 0; i < calls; ++i) {
        Results results(*executable, host, {x.bound()});
        EXPECT_EQ(results.result.status, RunStatus::kOk) << results.result.error;
        EXPECT_EQ(results.values(0), (Floats{3, 5, 7}));
      }
    } catch (const InternalError& error) {
      return error.what();
    }
    return "";
  }

  ZonedHost host;
};

TestHost::Body doubles_and_writes(int64_t element) {
  return [element](ng_call& call) {
    for (int64_t i = 0; i < elements(call.buffers[1]); ++i) floats(call.buffers[1])[i] = 2 * floats(call.buffers[0])[i];
    floats(call.buffers[1])[element] = 1;
    return NG_OK;
  };
}

TEST_F(RedZonesTest, NothingIsSaidOfTasksThatStayInside) {
  define_chain(host);
  EXPECT_EQ(error_of_chain(3), "");
}

TEST_F(RedZonesTest, OfTheArenaAreOverrun) {
  define_chain(host);
  host.define("double", doubles_and_writes(3));
  const std::string error = error_of_chain();
  EXPECT_NE(error.find("task 0 (double) has changed 4 bytes behind buffer 1 of 12 bytes, for s0=3"), std::string::npos)
      << error;
}

TEST_F(RedZonesTest, OfTheArenaAreFoundInFront) {
  define_chain(host);
  host.define("double", doubles_and_writes(-1));
  const std::string error = error_of_chain();
  EXPECT_NE(error.find("task 0 (double) has changed 4 bytes before buffer 1 of 12 bytes"), std::string::npos) << error;
}

TEST_F(RedZonesTest, OfResultsAreOverrun) {
  define_chain(host);
  host.define("increment", [](ng_call& call) {
    for (int64_t i = 0; i <= elements(call.buffers[1]); ++i) floats(call.buffers[1])[i] = 0;
    return NG_OK;
  });
  const std::string error = error_of_chain();
  EXPECT_NE(error.find("task 1 (increment) has changed 4 bytes behind buffer 2 of 12 bytes"), std::string::npos)
      << error;
}

TEST_F(RedZonesTest, OfWorkspacesAreOverrun) {
  define_chain(host);
  host.workspace("increment", 128);
  host.define("increment", [](ng_call& call) {
    static_cast<char*>(call.workspace)[130] = 1;
    return NG_OK;
  });
  const std::string error = error_of_chain();
  EXPECT_NE(error.find("task 1 (increment) has changed 1 bytes behind its workspace of 128 bytes"), std::string::npos)
      << error;
}

// Reported sizes of memory do not include red zones.
TEST_F(RedZonesTest, AreNoPartOfTheArena) {
  define_chain(host);
  const auto executable = make(host, kChain);
  Argument x(Floats{1, 2, 3});
  {
    const Results results(*executable, host, {x.bound()});
  }
  EXPECT_EQ(Observation(*executable).memory().arena_bytes, 64);
  EXPECT_EQ(host.live, 0);
}

}  // namespace
}  // namespace npugraph::runtime
