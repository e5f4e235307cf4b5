// The model reader is strict: what is not exactly right is named with file, key, value and limit.
#include "emulator/model/model.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <jal/abi/address.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "emulator/model/model_keys.hpp"

namespace jal::emu {
namespace {

using ::testing::HasSubstr;

Model load(const std::string& name) {
  Model model;
  std::string error;
  EXPECT_TRUE(load_model(name, &model, &error)) << error;
  return model;
}

/// A folder with a copy of jal1-a0 that a test may spoil.
class ModelFile : public ::testing::Test {
 protected:
  ModelFile() {
    char name[] = "/tmp/jal-model-XXXXXX";
    folder_ = mkdtemp(name);
    const auto source =
        std::filesystem::read_symlink("/proc/self/exe").parent_path() / "../share/jal/models/jal1-a0.toml";
    std::ifstream file(source);
    std::stringstream text;
    text << file.rdbuf();
    text_ = text.str();
  }
  ~ModelFile() override { std::filesystem::remove_all(folder_); }

  void write(const std::string& name, const std::string& text) { std::ofstream(folder_ + "/" + name) << text; }

  /// The message with which the text is refused; empty if it is accepted.
  std::string refusal(const std::string& text, const std::string& name = "spoiled.toml") {
    write(name, text);
    Model model;
    model.cores = 12345;
    std::string error;
    if (load_model(folder_ + "/" + name, &model, &error)) return "";
    EXPECT_EQ(model.cores, 12345u) << "a failed load changed the model";
    EXPECT_THAT(error, HasSubstr(name));
    return error;
  }

  std::string replaced(const std::string& from, const std::string& to) const {
    std::string text = text_;
    const auto at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return text.replace(at, from.size(), to);
  }

  std::string folder_, text_;
};

TEST(Model, PublishedFiguresOfA0) {
  const Model model = load("jal1-a0");
  EXPECT_EQ(model.name, "jal1-a0");
  EXPECT_EQ(model.cores, 64u);
  EXPECT_EQ((model.slice_bytes + model.reserved_bytes_per_slice) * 64, 216ull << 30);
  EXPECT_EQ(model.slice_bytes % JAL_PAGE_BYTES, 0u);
  EXPECT_NEAR(model.hbm_bytes_per_second_per_slice * 64, 15.4e12, 0.01e12);
  EXPECT_EQ(model.matrix_flops_mxfp4_mxfp4, 13.4e15);
  EXPECT_EQ(model.rated_mw, 700000u);
  EXPECT_EQ(model.sustained_mw, 550000u);
  EXPECT_EQ(model.packet_ps, 150000u);
  std::uint64_t static_uw = 0;
  for (const auto& unit : model.static_uw) {
    static_uw += unit[JAL_UNIT_STATE_ON];
    for (int state = 1; state < JAL_UNIT_STATE_COUNT; ++state) EXPECT_LE(unit[state], unit[state - 1]);
  }
  EXPECT_EQ(static_uw, 120000000u);
}

TEST(Model, SustainedPowerCoversFullHbmBandwidth) {
  const Model model = load("jal1-a0");
  const double hbm_watts = model.hbm_bytes_per_second_per_slice * 64 * model.hbm_fj_per_byte * 1e-15;
  EXPECT_NEAR(hbm_watts + 120, 550, 10);
}

TEST(Model, EveryFigureHasUnitAndSource) {
  for (const char* name : {"jal1-a0", "jal1-b0", "jal1-48", "jal-test4"}) {
    const Model model = load(name);
    EXPECT_EQ(model.name, name);
    EXPECT_EQ(model.figures.size(), model_keys().size() + static_keys().size());
    for (const auto& [key, figure] : model.figures) {
      EXPECT_FALSE(figure.unit.empty()) << key;
      EXPECT_GT(figure.source.size(), 12u) << key;
    }
  }
}

TEST(Model, B0DoesAQuarterMoreWorkPerJoule) {
  const Model a0 = load("jal1-a0"), b0 = load("jal1-b0");
  EXPECT_DOUBLE_EQ(a0.hbm_fj_per_byte, 1.25 * b0.hbm_fj_per_byte);
  EXPECT_DOUBLE_EQ(a0.matrix_fj_per_flop_mxfp8_mxfp4, 1.25 * b0.matrix_fj_per_flop_mxfp8_mxfp4);
  for (int unit = 0; unit < JAL_UNIT_COUNT; ++unit) {
    for (int state = 0; state < JAL_UNIT_STATE_COUNT; ++state) {
      EXPECT_NEAR(static_cast<double>(a0.static_uw[unit][state]), 1.25 * static_cast<double>(b0.static_uw[unit][state]),
                  1.0);
    }
  }
  EXPECT_EQ(a0.dispatch_ps, b0.dispatch_ps);
}

TEST(Model, OtherShapes) {
  EXPECT_EQ(load("jal1-48").cores, 48u);
  EXPECT_EQ(load("jal1-48").grid_cols, 8u);
  EXPECT_EQ(load("jal-test4").cores, 4u);
  EXPECT_EQ(load("jal-test4").slice_bytes, 64ull << 20);
}

TEST(Model, UnknownNameSaysWhereItLooked) {
  Model model;
  std::string error;
  EXPECT_FALSE(load_model("jal9", &model, &error));
  EXPECT_THAT(error, HasSubstr("jal9"));
  EXPECT_THAT(error, HasSubstr("share/jal/models/jal9.toml"));
  EXPECT_THAT(error, HasSubstr("JAL_MODEL_PATH"));
}

TEST_F(ModelFile, UnchangedIsAccepted) { EXPECT_EQ(refusal(text_), ""); }

TEST_F(ModelFile, OutOfRangeNamesKeyValueAndLimits) {
  const std::string error = refusal(replaced("dispatch = {value = 1500", "dispatch = {value = -3"));
  EXPECT_THAT(error, HasSubstr("latency.dispatch"));
  EXPECT_THAT(error, HasSubstr("-3 ns"));
  EXPECT_THAT(error, HasSubstr("0 to 1000000 ns"));
  EXPECT_THAT(refusal(replaced("dispatch = {value = 1500", "dispatch = {value = nan")), HasSubstr("outside"));
  EXPECT_THAT(refusal(replaced("off = {value = 0.05", "off = {value = 1.5")), HasSubstr("static.matrix.off"));
}

TEST_F(ModelFile, MissingKeysAreListed) {
  const auto line = text_.find("verb_issue =");
  std::string text = text_;
  text.erase(line, text.find('\n', line) - line);
  EXPECT_THAT(refusal(text), HasSubstr("missing latency.verb_issue"));
}

TEST_F(ModelFile, UnknownKeysAreNamedWithTheirLine) {
  EXPECT_THAT(refusal(text_ + "\n[extra]\nspeed = {value = 1, unit = \"x\", source = \"published: no\"}\n"),
              HasSubstr("unknown key extra.speed"));
  EXPECT_THAT(refusal("surprise = 3\n" + text_), HasSubstr("spoiled.toml:1: unknown key surprise"));
  EXPECT_THAT(refusal(replaced("value = 1500, unit", "value = 1500, note = \"\", unit")),
              HasSubstr("unknown part note"));
}

TEST_F(ModelFile, WrongUnitSourceOrType) {
  EXPECT_THAT(refusal(replaced("value = 1500, unit = \"ns\"", "value = 1500, unit = \"us\"")),
              HasSubstr("must be \"ns\""));
  EXPECT_THAT(refusal(replaced("value = 1500", "value = \"1500\"")), HasSubstr("not a number"));
  EXPECT_THAT(refusal(replaced("source = \"published: 15.4", "source = \"a guess: 15.4")),
              HasSubstr("rate.hbm_per_slice"));
  EXPECT_THAT(refusal(replaced("value = 150,", "value = 150.0001,")), HasSubstr("whole multiple of 0.001 ns"));
  EXPECT_THAT(refusal(replaced(", unit = \"ns\"", "")), HasSubstr("unit is missing"));
}

TEST_F(ModelFile, LimitsThatJoinKeys) {
  EXPECT_THAT(refusal(replaced("grid_rows = {value = 8", "grid_rows = {value = 9")), HasSubstr("72 cores, at most 64"));
  EXPECT_THAT(refusal(replaced("slice = {value = 3456", "slice = {value = 32")), HasSubstr("leaves no page"));
  EXPECT_THAT(refusal(replaced("sustained = {value = 550", "sustained = {value = 701")),
              HasSubstr("above power.rated"));
}

TEST_F(ModelFile, MalformedOrTruncatedIsRefused) {
  EXPECT_THAT(refusal(text_.substr(0, text_.size() / 2)), HasSubstr("spoiled.toml"));
  EXPECT_THAT(refusal("= = ="), HasSubstr("spoiled.toml:1"));
  EXPECT_THAT(refusal(""), HasSubstr("missing name"));
}

TEST_F(ModelFile, BaseIsOneFileOfTheSameFolder) {
  write("jal1-a0.toml", text_);
  EXPECT_EQ(refusal("name = \"child\"\nbase = \"jal1-a0\"\n"), "");
  EXPECT_THAT(refusal("name = \"child\"\nbase = \"../jal1-a0\"\n"), HasSubstr("base is not the name"));
  write("middle.toml", "name = \"middle\"\nbase = \"jal1-a0\"\n");
  Model model;
  std::string error;
  write("deep.toml", "name = \"deep\"\nbase = \"middle\"\n");
  EXPECT_FALSE(load_model(folder_ + "/deep.toml", &model, &error));
  EXPECT_THAT(error, HasSubstr("unknown key base"));
}

}  // namespace
}  // namespace jal::emu
