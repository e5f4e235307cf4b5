// The printers of jal-smi, fed with samples made here.
#include "tools/jal-smi/print.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace jal::smi {
namespace {

Device good_device(std::uint32_t id) {
  Device d;
  d.id = id;
  d.index = id;
  d.instance = "box";
  d.uuid = "4f2a91c0-0000-4000-8000-00000000000" + std::to_string(id % 10);
  d.model = "jal1-a0";
  d.state = "ok";
  d.clock = "virtual";
  d.age_ns = 12000000;
  d.clock_ps = 2000000000000;   // 2 s
  d.energy_nj = 1000000000000;  // 1000 J
  d.energy_epoch = 3;
  d.static_mw = 120000;
  d.sustained_mw = 550000;
  d.rated_mw = 700000;
  d.dispatch_time_ps = 500000000000;
  d.phase = JAL_PHASE_VERIFY_DECODE;
  d.phase_tokens[JAL_PHASE_VERIFY_DECODE] = 64;
  d.hbm_usable = 200ull << 30;
  d.hbm_used = 1ull << 30;
  d.unit_energy_nj[JAL_UNIT_HBM] = 5000000000;
  return d;
}

Sample sample_of(std::uint32_t devices) {
  Sample sample;
  sample.host = "host";
  sample.unix_ns = 1796119811123456789ull;
  Instance instance;
  instance.name = "box";
  instance.clock = "virtual";
  instance.program = "demo";
  instance.owner_pid = 7;
  for (std::uint32_t i = 0; i < devices; ++i) instance.devices.push_back(good_device(i));
  sample.instances.push_back(instance);
  return sample;
}

Sample with_lost_device() {
  Sample sample = sample_of(2);
  Device& lost = sample.instances[0].devices[1];
  lost.state = "lost";
  lost.error = JAL_ERROR_DEVICE_LOST;
  lost.error_text = "the page is torn, \"quoted\"";
  return sample;
}

std::size_t widest_line(const std::string& text) {
  std::size_t widest = 0, current = 0;
  for (const char c : text) {
    current = c == '\n' ? 0 : current + 1;
    widest = std::max(widest, current);
  }
  return widest;
}

TEST(PrintTable, EightChipsFitInHundredColumnsAndNameScope) {
  const std::string text = print_table(sample_of(8), false);
  EXPECT_LE(widest_line(text), 100u) << text;
  EXPECT_NE(text.find("package scope, modelled"), std::string::npos);
  EXPECT_NE(text.find("500/120/550"), std::string::npos) << text;  // 1000 J over 2 s of device time
  EXPECT_NE(text.find("25.0"), std::string::npos) << text;
}

TEST(PrintTable, ManyChipsAreSummarisedButBadOnesShown) {
  Sample sample = sample_of(40);
  sample.instances[0].devices[33].state = "hung";
  const std::string text = print_table(sample, false);
  EXPECT_NE(text.find("39 chips ok, not shown"), std::string::npos) << text;
  EXPECT_NE(text.find("hung"), std::string::npos);
  EXPECT_EQ(print_table(sample, true).find("not shown"), std::string::npos);
}

TEST(PrintTable, UnreadableChipIsARowWithItsReason) {
  const std::string text = print_table(with_lost_device(), false);
  EXPECT_NE(text.find("^ the page is torn"), std::string::npos) << text;
  EXPECT_NE(text.find("1 ok, 1 other"), std::string::npos) << text;
}

TEST(PrintJson, DocumentParsesAndUnknownIsNullWithReason) {
  const nlohmann::json document = nlohmann::json::parse(print_json(with_lost_device(), 7));
  EXPECT_EQ(document["schema"], "jal.smi/1");
  EXPECT_EQ(document["code"], 7);
  const nlohmann::json& devices = document["instances"][0]["devices"];
  ASSERT_EQ(devices.size(), 2u);
  EXPECT_DOUBLE_EQ(devices[0]["power"]["avg_w"], 500.0);
  EXPECT_EQ(devices[0]["power"]["scope"], "package");
  EXPECT_FALSE(devices[1].contains("power"));
  EXPECT_EQ(devices[1]["missing"]["*"], "the page is torn, \"quoted\"");
  ASSERT_EQ(document["errors"].size(), 1u);
  EXPECT_EQ(document["errors"][0]["code"], JAL_ERROR_DEVICE_LOST);
}

TEST(PrintJson, NoDeviceTimeGivesNullPowerNotZero) {
  Sample sample = sample_of(1);
  sample.instances[0].devices[0].clock_ps = 0;
  const nlohmann::json document = nlohmann::json::parse(print_json(sample, 0));
  EXPECT_TRUE(document["instances"][0]["devices"][0]["power"]["avg_w"].is_null());
}

TEST(PrintJson, UnitEnergiesCarryTheNamesOfTheContract) {
  const nlohmann::json document = nlohmann::json::parse(print_json(sample_of(1), 0));
  const nlohmann::json& units = document["instances"][0]["devices"][0]["units"];
  ASSERT_EQ(units.size(), static_cast<std::size_t>(JAL_UNIT_COUNT));
  EXPECT_EQ(units[JAL_UNIT_HBM]["unit"], "hbm");
  EXPECT_DOUBLE_EQ(units[JAL_UNIT_HBM]["energy_j"], 5.0);
}

TEST(PrintCsv, CellsAreQuotedAndUnknownIsEmpty) {
  std::string unknown;
  const auto selected = select_fields({"energy.j", "state"}, &unknown);
  const std::string text = print_csv(with_lost_device(), selected, true);
  EXPECT_EQ(text.substr(0, text.find("\r\n")), "time_utc,uuid,epoch,energy_j,state");
  EXPECT_NE(text.find(",3,1000.000000000,ok\r\n"), std::string::npos) << text;
  EXPECT_NE(text.find(",,,lost\r\n"), std::string::npos) << text;
}

TEST(PrintFieldJson, NumbersStayNumbers) {
  std::string unknown;
  const auto selected = select_fields({"energy.j", "state", "phase.verify_decode.tokens"}, &unknown);
  const nlohmann::json document = nlohmann::json::parse(print_field_json(sample_of(1), selected, 0));
  EXPECT_TRUE(document["devices"][0]["energy.j"].is_number());
  EXPECT_EQ(document["devices"][0]["phase.verify_decode.tokens"], 64);
  EXPECT_EQ(document["devices"][0]["state"], "ok");
  EXPECT_EQ(document["units"]["energy.j"], "J");
}

TEST(SelectFields, UnknownNameIsReturned) {
  std::string unknown;
  EXPECT_TRUE(select_fields({"energy.j", "nonsense"}, &unknown).empty());
  EXPECT_EQ(unknown, "nonsense");
}

TEST(Rfc3339, NanosecondsArePaddedToNineDigits) { EXPECT_EQ(rfc3339(1000000005), "1970-01-01T00:00:01.000000005Z"); }

}  // namespace
}  // namespace jal::smi
