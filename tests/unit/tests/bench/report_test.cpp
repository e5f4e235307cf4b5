// The lines that machines read from benchmark programs.
#include "tests/bench/report.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace jal::bench {
namespace {

Record record_of(double value) {
  Record record;
  record.bench = "slice";
  record.name = "decode";
  record.value = value;
  record.unit = "tok/s";
  record.lower_is_better = false;
  return record;
}

TEST(BenchReport, RecordWithoutReferenceJudgesItsValue) {
  Record record = record_of(7);
  EXPECT_FALSE(goal_is_met(record).has_value());
  record.goal = Goal{">=", 7};
  EXPECT_TRUE(*goal_is_met(record));
  record.goal = Goal{"<=", 6};
  EXPECT_FALSE(*goal_is_met(record));
}

TEST(BenchReport, RecordWithReferenceJudgesTheRatio) {
  Record record = record_of(50);
  record.reference = Reference{"limit", 100};
  record.goal = Goal{">=", 0.6};
  EXPECT_FALSE(*goal_is_met(record));
  const auto line = nlohmann::json::parse(to_json(record));
  EXPECT_DOUBLE_EQ(line["ratio"], 0.5);
  EXPECT_FALSE(line["met"]);
  EXPECT_EQ(line["better"], "higher");
  EXPECT_EQ(line["kind"], "measured");
}

TEST(BenchReport, RatioToZeroIsNullNotInfinity) {
  Record record = record_of(50);
  record.reference = Reference{"limit", 0};
  EXPECT_TRUE(nlohmann::json::parse(to_json(record))["ratio"].is_null());
}

TEST(BenchReport, MedianOfEvenCountIsMeanOfMiddleTwo) {
  EXPECT_DOUBLE_EQ(median({4, 1, 3, 100}), 3.5);
  EXPECT_DOUBLE_EQ(median({9, 1, 3}), 3);
  EXPECT_DOUBLE_EQ(median({}), 0);
}

}  // namespace
}  // namespace jal::bench
