// The reader against files written for it: every type, every refusal with its code, and damage at every byte of a
// header.
#include "samples/01_llm/gguf.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>

#include "tests/unit/samples/01_llm/tiny_gguf.hpp"

namespace jal::llm {
namespace {

using test::GgufWriter;
using test::TemporaryFile;
using testing::AllOf;
using testing::HasSubstr;

GgufFile parse(const std::string& bytes) {
  const TemporaryFile file("parse.gguf", bytes);
  return GgufFile::open(file.path());  // the mapping outlives the name
}

/// Expects open() to throw `code` with a message that has all the parts and says what to do.
template <typename... Parts>
void expect_refused(const std::string& bytes, GgufErrorCode code, Parts... parts) {
  try {
    parse(bytes);
    ADD_FAILURE() << "accepted";
  } catch (const GgufError& error) {
    EXPECT_EQ(static_cast<int>(error.code()), static_cast<int>(code)) << error.what();
    EXPECT_THAT(error.what(), AllOf(HasSubstr("parse.gguf"), HasSubstr("again"), HasSubstr(parts)...));
  }
}

template <typename T>
std::string raw(T value) {
  return std::string(reinterpret_cast<const char*>(&value), sizeof value);
}

TEST(Gguf, MetadataOfEveryTypeIsRead) {
  GgufWriter w;
  w.add_raw("u8", GgufType::uint8, raw<std::uint8_t>(200));
  w.add_raw("i8", GgufType::int8, raw<std::int8_t>(-5));
  w.add_raw("u16", GgufType::uint16, raw<std::uint16_t>(60000));
  w.add_raw("i16", GgufType::int16, raw<std::int16_t>(-300));
  w.add("u32", std::uint32_t{4000000000});
  w.add_raw("i32", GgufType::int32, raw<std::int32_t>(-70000));
  w.add_raw("u64", GgufType::uint64, raw<std::uint64_t>(UINT64_MAX));
  w.add_raw("i64", GgufType::int64, raw<std::int64_t>(INT64_MIN));
  w.add("f32", 1.5f);
  w.add_raw("f64", GgufType::float64, raw(-2.25));
  w.add("yes", true);
  w.add("text", "héllo");
  w.add("texts", std::vector<std::string>{"a", "", "ü"});
  w.add("numbers", std::vector<std::int32_t>{-1, 7});
  const std::string inner = raw<std::uint32_t>(5) + raw<std::uint64_t>(1) + raw<std::int32_t>(42);
  w.add_raw("nested", GgufType::array, raw<std::uint32_t>(9) + raw<std::uint64_t>(2) + inner + inner);
  const GgufFile file = parse(w.bytes());
  EXPECT_EQ(file.metadata_count(), 15u);
  EXPECT_EQ(file.find_unsigned("u8"), 200u);
  EXPECT_EQ(std::get<std::int64_t>(*file.find("i8")), -5);
  EXPECT_EQ(file.find_unsigned("u16"), 60000u);
  EXPECT_EQ(std::get<std::int64_t>(*file.find("i16")), -300);
  EXPECT_EQ(file.find_unsigned("u32"), 4000000000u);
  EXPECT_EQ(std::get<std::int64_t>(*file.find("i32")), -70000);
  EXPECT_EQ(file.find_unsigned("u64"), UINT64_MAX);
  EXPECT_EQ(std::get<std::int64_t>(*file.find("i64")), INT64_MIN);
  EXPECT_EQ(file.find_number("f32"), 1.5);
  EXPECT_EQ(file.find_number("f64"), -2.25);
  EXPECT_EQ(file.find_bool("yes"), true);
  EXPECT_EQ(file.find_string("text"), "héllo");
  EXPECT_THAT(file.find_array("texts", GgufType::string)->strings, testing::ElementsAre("a", "", "ü"));
  const GgufArray* numbers = file.find_array("numbers", GgufType::int32);
  EXPECT_EQ(numbers->count, 2u);
  EXPECT_EQ(std::get<std::int64_t>(numbers->scalar(1)), 7);
  const GgufArray* nested = file.find_array("nested", GgufType::array);
  ASSERT_EQ(nested->arrays.size(), 2u);
  EXPECT_EQ(std::get<std::int64_t>(nested->arrays[1].scalar(0)), 42);
  EXPECT_EQ(file.find_unsigned("absent"), std::nullopt);
  EXPECT_THROW(file.find_unsigned("text"), GgufError);
  EXPECT_THROW(file.find_string("u8"), GgufError);
  EXPECT_THROW(file.find_array("texts", GgufType::int32), GgufError);
}

TEST(Gguf, TensorRowsAreDecodedByTheBlockDefinitions) {
  std::string nibbles;  // byte j holds j % 16 low and 15 - j high
  for (unsigned j = 0; j < 16; ++j) nibbles.push_back(static_cast<char>(j | (15 - j) << 4));
  std::string bytes8;
  for (int j = 0; j < 32; ++j) bytes8.push_back(static_cast<char>(j - 16));
  const std::string half_d = raw<std::uint16_t>(0x3800);  // 0.5
  const std::string half_m = raw<std::uint16_t>(0xc100);  // -2.5
  const std::string tiny_d = raw<std::uint16_t>(0x0001);  // 2^-24, a denormal of binary16
  const std::string zeros20(20, '\0');
  GgufWriter w;
  w.add_tensor("q4_0", 2, {32, 1}, half_d + nibbles);
  w.add_tensor("q4_1", 3, {32, 2}, zeros20 + half_d + half_m + nibbles);
  w.add_tensor("q8_0", 8, {32}, tiny_d + bytes8);
  w.add_tensor("mxfp4", 39, {32}, "\x80" + nibbles);                      // 2^1
  w.add_tensor("mxfp4_small", 39, {32}, std::string(1, '\0') + nibbles);  // 2^-127
  w.add_tensor("mxfp4_nan", 39, {32}, "\xff" + nibbles);
  w.add_tensor("f16", 1, {5},
               raw<std::uint16_t>(0x3c00) + raw<std::uint16_t>(0xfbff) + raw<std::uint16_t>(0x7c00) +
                   raw<std::uint16_t>(0x8000) + raw<std::uint16_t>(0x7e01));
  w.add_tensor("bf16", 30, {2}, raw<std::uint16_t>(0x3fc0) + raw<std::uint16_t>(0xc000));
  w.add_tensor("f32", 0, {2, 3}, raw(1.0f) + raw(2.0f) + raw(3.0f) + raw(4.0f) + raw(5.0f) + raw(6.0f));
  const GgufFile file = parse(w.bytes());
  const auto row = [&](const char* name, std::uint64_t r) {
    const GgufTensor* tensor = file.find_tensor(name);
    std::vector<float> out(tensor->row_elements());
    dequantize_row(*tensor, r, out);
    return out;
  };
  constexpr float kE2m1[16] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6, -0.0f, -0.5f, -1, -1.5f, -2, -3, -4, -6};
  for (int j = 0; j < 16; ++j) {
    const auto low = static_cast<float>(j), high = static_cast<float>(15 - j);
    EXPECT_EQ(row("q4_0", 0)[j], (low - 8) * 0.5f);
    EXPECT_EQ(row("q4_0", 0)[j + 16], (high - 8) * 0.5f);
    EXPECT_EQ(row("q4_1", 0)[j], 0.0f);
    EXPECT_EQ(row("q4_1", 1)[j], low * 0.5f - 2.5f);
    EXPECT_EQ(row("q4_1", 1)[j + 16], high * 0.5f - 2.5f);
    EXPECT_EQ(row("q8_0", 0)[2 * j], static_cast<float>(2 * j - 16) * 0x1p-24f);
    EXPECT_EQ(row("mxfp4", 0)[j], kE2m1[j] * 2);
    EXPECT_EQ(row("mxfp4", 0)[j + 16], kE2m1[15 - j] * 2);
    EXPECT_EQ(row("mxfp4_small", 0)[j], std::ldexp(kE2m1[j], -127));
    EXPECT_TRUE(std::isnan(row("mxfp4_nan", 0)[j]));
  }
  const std::vector<float> f16 = row("f16", 0);
  EXPECT_EQ(f16[0], 1.0f);
  EXPECT_EQ(f16[1], -65504.0f);
  EXPECT_EQ(f16[2], INFINITY);
  EXPECT_TRUE(f16[3] == 0 && std::signbit(f16[3]));
  EXPECT_TRUE(std::isnan(f16[4]));
  EXPECT_THAT(row("bf16", 0), testing::ElementsAre(1.5f, -2.0f));
  EXPECT_THAT(row("f32", 2), testing::ElementsAre(5.0f, 6.0f));
  EXPECT_EQ(file.find_tensor("absent"), nullptr);
}

TEST(Gguf, OtherAlignmentIsHonoured) {
  GgufWriter w;
  w.alignment = 64;
  w.add_tensor("a", GgufTensorType::f32, {1}, {1.0f});
  w.add_tensor("b", GgufTensorType::f32, {1}, {2.0f});
  const GgufFile file = parse(w.bytes());
  float out = 0;
  dequantize_row(*file.find_tensor("b"), 0, {&out, 1});
  EXPECT_EQ(out, 2.0f);
}

TEST(Gguf, FileThatCannotBeReadIsNamed) {
  try {
    GgufFile::open("/nonexistent/model.gguf");
    ADD_FAILURE();
  } catch (const GgufError& error) {
    EXPECT_EQ(error.code(), GgufErrorCode::cannot_read);
    EXPECT_THAT(error.what(),
                AllOf(HasSubstr("/nonexistent/model.gguf"), HasSubstr("No such file"), HasSubstr("check")));
  }
  EXPECT_THROW(GgufFile::open("/tmp"), GgufError);
  EXPECT_THROW(GgufFile::open("/dev/null"), GgufError);
}

TEST(Gguf, WrongHeaderIsRefused) {
  expect_refused("", GgufErrorCode::truncated, "magic");
  expect_refused("GGUX" + std::string(20, '\0'), GgufErrorCode::corrupt, "47 47 55 58");
  GgufWriter old;
  old.version = 2;
  expect_refused(old.bytes(), GgufErrorCode::unsupported, "version 2");
  GgufWriter swapped;
  swapped.version = 0x03000000;
  expect_refused(swapped.bytes(), GgufErrorCode::unsupported, "big endian");
  GgufWriter many;
  many.claimed_tensors = std::uint64_t{1} << 60;
  expect_refused(many.bytes(), GgufErrorCode::too_large, "1152921504606846976 tensors", "65536");
  GgufWriter keys;
  keys.claimed_metadata = 70000;
  expect_refused(keys.bytes(), GgufErrorCode::too_large, "70000 metadata");
}

TEST(Gguf, WrongMetadataIsRefused) {
  GgufWriter twice;
  twice.add("key", std::uint32_t{1});
  twice.add("key", std::uint32_t{2});
  expect_refused(twice.bytes(), GgufErrorCode::corrupt, "'key' stands twice");
  GgufWriter type;
  type.add_raw("key", static_cast<GgufType>(13), raw<std::uint32_t>(0));
  expect_refused(type.bytes(), GgufErrorCode::unknown_type, "metadata 'key' has metadata type 13");
  GgufWriter element;
  element.add_raw("key", GgufType::array, raw<std::uint32_t>(99) + raw<std::uint64_t>(0));
  expect_refused(element.bytes(), GgufErrorCode::unknown_type, "99");
  GgufWriter flag;
  flag.add_raw("key", GgufType::boolean, "\2");
  expect_refused(flag.bytes(), GgufErrorCode::corrupt, "bool 2");
  GgufWriter utf8;
  utf8.add("key", "ab\xffz");
  expect_refused(utf8.bytes(), GgufErrorCode::corrupt, "metadata 'key' is not valid UTF-8 at offset");
  GgufWriter empty;
  empty.add("", std::uint32_t{1});
  expect_refused(empty.bytes(), GgufErrorCode::corrupt, "key 0", "empty");
  GgufWriter long_key;
  long_key.add(std::string(70000, 'k'), std::uint32_t{1});
  expect_refused(long_key.bytes(), GgufErrorCode::too_large, "70000 bytes", "65535");
  GgufWriter huge_text;
  huge_text.add_raw("key", GgufType::string, raw<std::uint64_t>(UINT64_MAX));
  expect_refused(huge_text.bytes(), GgufErrorCode::truncated, "18446744073709551615 bytes");
  GgufWriter huge_array;
  huge_array.add_raw("key", GgufType::array, raw<std::uint32_t>(4) + raw<std::uint64_t>(std::uint64_t{1} << 62));
  expect_refused(huge_array.bytes(), GgufErrorCode::truncated, "4611686018427387904 elements");
  GgufWriter deep;
  std::string nested = raw<std::uint32_t>(0) + raw<std::uint64_t>(0);
  for (int i = 0; i < 6; ++i) nested = raw<std::uint32_t>(9) + raw<std::uint64_t>(1) + nested;
  deep.add_raw("key", GgufType::array, nested);
  expect_refused(deep.bytes(), GgufErrorCode::too_large, "nests");
  GgufWriter alignment;
  alignment.add("general.alignment", std::uint32_t{48});
  expect_refused(alignment.bytes(), GgufErrorCode::corrupt, "general.alignment is 48");
}

TEST(Gguf, WrongTensorTableIsRefused) {
  const auto one = [](const char* name, std::uint32_t type, std::vector<std::uint64_t> dims, std::size_t size_bytes) {
    GgufWriter w;
    w.add_tensor(name, type, std::move(dims), std::string(size_bytes, '\0'));
    return w.bytes();
  };
  expect_refused(one("t", 12, {256}, 144), GgufErrorCode::unknown_type, "tensor 't' has type 12", "Q4_1 (3)");
  expect_refused(one("t", 0, {}, 4), GgufErrorCode::too_large, "0 dimensions");
  expect_refused(one("t", 0, {1, 1, 1, 1, 1}, 4), GgufErrorCode::too_large, "5 dimensions");
  expect_refused(one("t", 0, {0, 4}, 4), GgufErrorCode::too_large, "size 0 in dimension 0");
  expect_refused(one("t", 0, {std::uint64_t{1} << 40}, 4), GgufErrorCode::too_large, "1099511627776");
  expect_refused(one("t", 0, {1u << 31, 1u << 31, 1u << 31}, 4), GgufErrorCode::too_large, "elements");
  expect_refused(one("t", 3, {48}, 40), GgufErrorCode::corrupt, "rows of 48", "blocks of 32");
  expect_refused(one("t", 0, {64, 2}, 511), GgufErrorCode::truncated, "tensor 't' needs 512 bytes", "ends at");
  expect_refused(one("", 0, {1}, 4), GgufErrorCode::corrupt, "name of tensor 0", "empty");
  expect_refused(one("a\nb", 0, {1}, 4), GgufErrorCode::corrupt, "not printable");
  expect_refused(one("\xc0\x80", 0, {1}, 4), GgufErrorCode::corrupt, "UTF-8");
  const std::string long_name(64, 'n');
  expect_refused(one(long_name.c_str(), 0, {1}, 4), GgufErrorCode::too_large, "64 bytes", "63");
  GgufWriter twice;
  twice.add_tensor("t", GgufTensorType::f32, {1}, {1.0f});
  twice.add_tensor("t", GgufTensorType::f32, {1}, {1.0f});
  expect_refused(twice.bytes(), GgufErrorCode::corrupt, "tensor 't' stands twice");
}

TEST(Gguf, WrongTensorOffsetIsRefused) {
  GgufWriter w;
  w.add_tensor("a", GgufTensorType::f32, {16}, std::vector<float>(16));
  w.add_tensor("b", GgufTensorType::f32, {16}, std::vector<float>(16));
  std::size_t data = 0;
  const std::string good = w.bytes(&data);
  // The offset of "b" is the last field of the table; what follows is padding.
  const std::size_t at = good.rfind(raw<std::uint64_t>(64), data);
  ASSERT_LT(at, data);
  const auto with = [&](std::uint64_t offset) { return good.substr(0, at) + raw(offset) + good.substr(at + 8); };
  EXPECT_NO_THROW(parse(good));
  expect_refused(with(33), GgufErrorCode::corrupt, "tensor 'b' lies at offset 33", "alignment 32");
  expect_refused(with(32), GgufErrorCode::corrupt, "'a' and 'b' overlap");
  expect_refused(with(96), GgufErrorCode::truncated, "tensor 'b'");
  expect_refused(with(UINT64_MAX - 31), GgufErrorCode::truncated, "tensor 'b'");
}

TEST(Gguf, TruncationAtEveryHeaderByteIsRefused) {
  std::size_t data = 0;
  const std::string good = test::tiny_model({}).bytes(&data);
  const TemporaryFile file("truncated.gguf", good);
  file.truncate(good.size() - 1);
  EXPECT_THROW(GgufFile::open(file.path()), GgufError);
  for (std::size_t size = data; size-- > 0;) {
    file.truncate(size);
    try {
      GgufFile::open(file.path());
      ADD_FAILURE() << "accepted at " << size;
    } catch (const GgufError& error) {
      ASSERT_EQ(static_cast<int>(error.code()), static_cast<int>(GgufErrorCode::truncated))
          << size << ": " << error.what();
    }
  }
}

TEST(Gguf, FlippedHeaderBitsNeverReadOutsideTheFile) {
  std::size_t data = 0;
  const std::string good = test::tiny_model({}).bytes(&data);
  const TemporaryFile file("flipped.gguf", good);
  std::size_t refused = 0;
  std::vector<float> row;
  for (std::size_t at = 0; at < data; ++at) {
    file.set_byte(at, static_cast<char>(good[at] ^ (1 << (at % 8))));
    try {
      const GgufFile parsed = GgufFile::open(file.path());
      for (const GgufTensor& tensor : parsed.tensors()) {
        row.resize(tensor.row_elements());
        dequantize_row(tensor, tensor.rows() - 1, row);
      }
    } catch (const GgufError&) {
      ++refused;
    }
    file.set_byte(at, good[at]);
  }
  // Letters of names and values may change unnoticed; structure may not.
  EXPECT_GT(refused, data / 10);
}

}  // namespace
}  // namespace jal::llm
