// The law on memory: decoding a request, accepted or refused, takes at most 8 times its bytes + 1
// MiB at any moment, whatever its shape. Counts what operator new hands out.
#include <malloc.h>

#include <atomic>
#include <cstdlib>
#include <functional>
#include <memory>
#include <new>
#include <string>

#include "absl/strings/str_cat.h"
#include "canopy/v1/scorer.pb.h"
#include "gtest/gtest.h"
#include "server/request_validator.h"

namespace {

std::atomic<int64_t> g_live_bytes{0};
std::atomic<int64_t> g_peak_bytes{0};

void* Allocate(size_t size) {
  void* memory = std::malloc(size);
  if (memory == nullptr) {
    std::abort();
  }
  const int64_t live = g_live_bytes += static_cast<int64_t>(malloc_usable_size(memory));
  int64_t peak = g_peak_bytes;
  while (peak < live && !g_peak_bytes.compare_exchange_weak(peak, live)) {
  }
  return memory;
}

void Release(void* memory) {
  if (memory != nullptr) {
    g_live_bytes -= static_cast<int64_t>(malloc_usable_size(memory));
    std::free(memory);
  }
}

}  // namespace

void* operator new(size_t size) { return Allocate(size); }
void* operator new[](size_t size) { return Allocate(size); }
void operator delete(void* memory) noexcept { Release(memory); }
void operator delete[](void* memory) noexcept { Release(memory); }
void operator delete(void* memory, size_t /*size*/) noexcept { Release(memory); }
void operator delete[](void* memory, size_t /*size*/) noexcept { Release(memory); }

namespace canopy::server {
namespace {

constexpr int64_t kSlackBytes = 1 << 20;

std::shared_ptr<const ModelInfo> Model() {
  ModelInfo model;
  model.name = "m";
  model.vocab_size = 1'000;
  model.max_path_tokens = 2'048;
  model.hidden_size = 8;
  model.num_labels = 1;
  return std::make_shared<const ModelInfo>(model);
}

// Decodes `bytes` and returns the code; fails the test when that took too much memory.
absl::StatusCode Decode(const std::string& name, const std::string& bytes) {
  const std::shared_ptr<const ModelInfo> model = Model();
  const int64_t before = g_live_bytes;
  g_peak_bytes = before;
  const auto request = PrepareRequest(bytes, RequestLimits(), [&model](absl::string_view) {
    return std::shared_ptr<const ModelInfo>(model);
  });
  const int64_t peak = g_peak_bytes - before;
  EXPECT_LE(peak, 8 * static_cast<int64_t>(bytes.size()) + kSlackBytes)
      << name << ": " << bytes.size() << " bytes, " << request.status();
  return request.status().code();
}

std::string Repeat(const std::string& text, int count) {
  std::string all;
  all.reserve(text.size() * static_cast<size_t>(count));
  for (int i = 0; i < count; ++i) {
    all += text;
  }
  return all;
}

std::string Message(char tag, const std::string& content) {
  std::string length;
  for (size_t rest = content.size();; rest >>= 7) {
    length += static_cast<char>(rest < 0x80 ? rest : 0x80 | (rest & 0x7f));
    if (rest < 0x80) {
      return absl::StrCat(std::string(1, tag), length, content);
    }
  }
}

constexpr char kQuestion = 0x1a;
constexpr char kPrefix = 0x12;
constexpr char kCandidate = 0x1a;
constexpr char kTokens = 0x12;
constexpr char kIds = 0x0a;
const std::string kPrefixOfOne = Message(kPrefix, Message(kIds, "\x01"));

TEST(DecoderMemoryTest, LegalShapesAreWithinTheLaw) {
  const std::string smallest_candidate = Message(kCandidate, "");
  EXPECT_EQ(Decode("as many of the smallest candidates as allowed",
                   Message(kQuestion, kPrefixOfOne + Repeat(smallest_candidate, 65'536))),
            absl::StatusCode::kOk);
  EXPECT_EQ(Decode("as many of the smallest questions as allowed",
                   Repeat(Message(kQuestion, kPrefixOfOne + smallest_candidate), 4'096)),
            absl::StatusCode::kOk);
  const std::string candidate =
      Message(kCandidate, Message(kTokens, Message(kIds, std::string(2'000, '\1'))));
  EXPECT_EQ(Decode("as many one-byte tokens as allowed",
                   Repeat(Message(kQuestion, Repeat(candidate, 16)), 131)),
            absl::StatusCode::kOk);
  EXPECT_EQ(Decode("one token", Message(kQuestion, kPrefixOfOne + smallest_candidate)),
            absl::StatusCode::kOk);
}

TEST(DecoderMemoryTest, HostileShapesAreWithinTheLaw) {
  const auto refused = absl::StatusCode::kInvalidArgument;
  EXPECT_EQ(Decode("empty questions", Repeat(Message(kQuestion, ""), 4'000)), refused);
  EXPECT_EQ(Decode("too many empty questions", Repeat(Message(kQuestion, ""), 8 << 20)), refused);
  EXPECT_EQ(Decode("too many empty candidates",
                   Message(kQuestion, Repeat(Message(kCandidate, ""), 8 << 20))),
            refused);
  EXPECT_EQ(Decode("empty paths", Message(kQuestion, Repeat(Message(kCandidate, ""), 65'536))),
            refused);
  EXPECT_EQ(
      Decode("too many tokens",
             Message(kQuestion, Message(kPrefix, Message(kIds, std::string(16 << 20, '\1'))))),
      refused);
  EXPECT_EQ(
      Decode("tokens outside the vocabulary",
             Message(kQuestion, Message(kPrefix, Message(kIds, std::string(4 << 20, '\x7f'))))),
      refused);
  EXPECT_EQ(
      Decode("unpacked tokens", Message(kQuestion, Message(kPrefix, Repeat("\x08\x01", 4 << 20)))),
      refused);
  EXPECT_EQ(Decode("unknown fields", Repeat("\x50\x01", 8 << 20)), refused);
  EXPECT_EQ(Decode("groups", Repeat("\x7b\x7c", 8 << 20)), refused);
  EXPECT_EQ(Decode("outputs again and again", Repeat(std::string("\x22\x00", 2), 8 << 20)),
            refused);
  EXPECT_EQ(Decode("a long id", Message(0x0a, std::string(32 << 20, 'x'))), refused);
  EXPECT_EQ(Decode("garbage", std::string(32 << 20, '\xff')), refused);
}

}  // namespace
}  // namespace canopy::server
