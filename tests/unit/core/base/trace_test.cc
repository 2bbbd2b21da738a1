// SPDX-License-Identifier: Apache-2.0
#include "base/trace.h"

#include <cstdio>
#include <fstream>
#include <set>
#include <thread>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/error.h"

namespace npugraph::trace {
namespace {

class TraceTest : public testing::Test {
 protected:
  TraceTest() { start(); }
  ~TraceTest() override {
    if (enabled()) stop();
  }
};

// Ends the trace and returns its complete events by name.
nlohmann::json spans() {
  nlohmann::json out = nlohmann::json::object();
  const nlohmann::json document = nlohmann::json::parse(to_json(stop()));
  for (const auto& event : document["traceEvents"])
    if (event["ph"] == "X") out[event["name"].get<std::string>()] = event;
  return out;
}

TEST_F(TraceTest, NothingIsRecordedWhileOff) {
  stop();
  EXPECT_FALSE(enabled());
  {
    Span span("off", "test");
  }
  record({"off", "test", 0, 1, 0, {}});
  start();
  EXPECT_TRUE(stop().empty());
  EXPECT_THROW(stop(), UserError);
}

TEST_F(TraceTest, ATraceHoldsNothingOfTheOneBefore) {
  {
    Span span("first", "test");
  }
  EXPECT_EQ(stop().size(), 1u);
  start();
  {
    Span span("second", "test");
  }
  const std::vector<Event> second = stop();
  ASSERT_EQ(second.size(), 1u);
  EXPECT_EQ(second[0].name, "second");
}

TEST_F(TraceTest, AnInnerTraceLeavesTheOuterOneWhole) {
  {
    Span span("before", "test");
  }
  start();
  {
    Span span("inside", "test");
  }
  EXPECT_EQ(stop().size(), 1u);
  EXPECT_TRUE(enabled());
  {
    Span span("after", "test");
  }
  EXPECT_EQ(stop().size(), 3u);
}

TEST_F(TraceTest, SpansNestInTime) {
  {
    Span outer("outer", "test");
    Span inner("inner", "test");
  }
  const std::vector<Event> recorded = stop();
  ASSERT_EQ(recorded.size(), 2u);
  EXPECT_EQ(recorded[0].name, "inner");
  EXPECT_EQ(recorded[1].name, "outer");
  EXPECT_LE(recorded[1].begin_ns, recorded[0].begin_ns);
  EXPECT_LE(recorded[0].begin_ns, recorded[0].end_ns);
  EXPECT_LE(recorded[0].end_ns, recorded[1].end_ns);
}

TEST_F(TraceTest, ASpanThatEndsAfterTheTraceIsDropped) {
  {
    Span span("late", "test");
    EXPECT_TRUE(stop().empty());
  }
  start();
  EXPECT_TRUE(stop().empty());
}

TEST_F(TraceTest, JsonHasTheFieldsOfChromeTraces) {
  record({"task", "run", 1'500, 4'000, 7, {{"bytes", int64_t{12}}, {"share", 0.5}, {"node", std::string("add")}}});
  const nlohmann::json task = spans()["task"];
  EXPECT_EQ(task["cat"], "run");
  EXPECT_EQ(task["ts"], 1.5);  // microseconds
  EXPECT_EQ(task["dur"], 2.5);
  EXPECT_EQ(task["tid"], 7);
  EXPECT_TRUE(task["pid"].is_number_integer());
  EXPECT_EQ(task["args"], (nlohmann::json{{"bytes", 12}, {"share", 0.5}, {"node", "add"}}));
}

TEST_F(TraceTest, AnyNameGivesValidJson) {
  const std::string name = "quote \" backslash \\ newline \n control \x01";
  {
    Span span(name, "te\"st");
  }
  EXPECT_TRUE(spans().contains(name));
  start();
  {
    Span span("bytes \xff\xfe", "test");
  }
  EXPECT_TRUE(nlohmann::json::accept(to_json(stop())));
}

TEST_F(TraceTest, ArgumentsOfSpans) {
  {
    Span span("with", "test");
    span.arg("hits", int64_t{3});
  }
  EXPECT_EQ(spans()["with"]["args"]["hits"], 3);
}

TEST_F(TraceTest, ThreadsHaveNumbersAndNames) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([t] {
      set_thread_name(cat("worker ", t));
      for (int i = 0; i < 50; ++i) Span("work", "test");
    });
  for (std::thread& thread : threads) thread.join();
  std::set<int> numbers;
  const std::vector<Event> recorded = stop();
  for (const Event& event : recorded) numbers.insert(event.thread);
  EXPECT_EQ(numbers.size(), 4u);
  EXPECT_EQ(recorded.size(), 200u);
  EXPECT_EQ(thread_id(), thread_id());
  EXPECT_NE(to_json(recorded).find("\"worker 3\""), std::string::npos);
}

TEST_F(TraceTest, WritesAFile) {
  {
    Span span("written", "test");
  }
  const std::string path = testing::TempDir() + "npugraph_trace_test.json";
  const std::vector<Event> recorded = stop();
  write(recorded, path);
  std::ifstream file(path);
  EXPECT_EQ(nlohmann::json::parse(file)["traceEvents"].back()["name"], "written");
  std::remove(path.c_str());
  EXPECT_THROW(write(recorded, testing::TempDir() + "no/such/directory/trace.json"), UserError);
}

}  // namespace
}  // namespace npugraph::trace
