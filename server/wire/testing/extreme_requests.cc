#include "server/wire/testing/extreme_requests.h"

#include "absl/strings/str_cat.h"

namespace canopy::server {
namespace {

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
constexpr char kRaw = 0x12;
constexpr char kRaw64 = 0x1a;

std::string PrefixOfOne() { return Message(kPrefix, Message(kIds, "\x01")); }

std::string SmallestCandidate() { return Message(kCandidate, ""); }

}  // namespace

std::shared_ptr<const ModelInfo> ModelOfExtremes() {
  ModelInfo model;
  model.name = "m";
  model.vocab_size = 1'000;
  model.max_path_tokens = 2'048;
  model.hidden_size = 8;
  model.num_labels = 1;
  return std::make_shared<const ModelInfo>(model);
}

std::vector<SampleRequest> LegalRequests() {
  const std::string candidate =
      Message(kCandidate, Message(kTokens, Message(kIds, std::string(2'000, '\1'))));
  return {
      {"as many of the smallest candidates as allowed",
       Message(kQuestion, PrefixOfOne() + Repeat(SmallestCandidate(), 65'536))},
      {"as many of the smallest questions as allowed",
       Repeat(Message(kQuestion, PrefixOfOne() + SmallestCandidate()), 4'096)},
      {"as many one-byte tokens as allowed",
       Repeat(Message(kQuestion, Repeat(candidate, 16)), 131)},
      {"as many int64 tokens as a message of 16 MiB has",
       Repeat(Message(kQuestion,
                      Message(kCandidate,
                              Message(kTokens, Message(kRaw64, std::string(16'000, '\0'))))),
              1'048)},
      {"the smallest int64 candidates",
       Message(kQuestion,
               Repeat(Message(kCandidate, Message(kTokens, Message(kRaw64, std::string(8, '\0')))),
                      65'536))},
      {"one token", Message(kQuestion, PrefixOfOne() + SmallestCandidate())},
  };
}

std::vector<SampleRequest> HostileRequests() {
  return {
      {"empty questions", Repeat(Message(kQuestion, ""), 4'000)},
      {"too many empty questions", Repeat(Message(kQuestion, ""), 8 << 20)},
      {"too many empty candidates", Message(kQuestion, Repeat(SmallestCandidate(), 8 << 20))},
      {"empty paths", Message(kQuestion, Repeat(SmallestCandidate(), 65'536))},
      {"candidates of empty tokens",
       Message(kQuestion, Repeat(Message(kCandidate, Message(kTokens, "")), 4 << 20))},
      {"candidates of a token each",
       Message(kQuestion,
               Repeat(Message(kCandidate, Message(kTokens, Message(kIds, "\x01"))), 2 << 20))},
      {"questions of a prefix and a candidate",
       Repeat(Message(kQuestion, PrefixOfOne() + SmallestCandidate()), 2 << 20)},
      {"too many tokens",
       Message(kQuestion, Message(kPrefix, Message(kIds, std::string(16 << 20, '\1'))))},
      {"tokens outside the vocabulary",
       Message(kQuestion, Message(kPrefix, Message(kIds, std::string(4 << 20, '\x7f'))))},
      {"too many int64 tokens",
       Message(kQuestion, Message(kPrefix, Message(kRaw64, std::string(40 << 20, '\0'))))},
      {"int64 tokens of which the last is outside the vocabulary",
       Message(kQuestion, Message(kPrefix, Message(kRaw64, std::string((32 << 20) - 8, '\0') +
                                                               std::string(8, '\x7f'))))},
      {"int64 tokens, cut off",
       Message(kQuestion, Message(kPrefix, Message(kRaw64, std::string((32 << 20) - 1, '\0'))))},
      {"int64 tokens, one at a time",
       Message(kQuestion,
               Message(kPrefix, Repeat(Message(kRaw64, std::string(8, '\1')), 3 << 20)))},
      {"tokens in all forms, again and again",
       Message(kQuestion, Message(kPrefix, Repeat(Message(kIds, "\x01") + Message(kRaw, "\x01") +
                                                      Message(kRaw64, "\x01"),
                                                  4 << 20)))},
      {"int64 arrays sent as int32, too long",
       Message(kQuestion, Message(kPrefix, Message(kRaw, Repeat(std::string("\1\0\0\0\0\0\0\0", 8),
                                                                2 << 20))))},
      {"unpacked tokens", Message(kQuestion, Message(kPrefix, Repeat("\x08\x01", 4 << 20)))},
      {"too many unpacked tokens",
       Message(kQuestion, Message(kPrefix, Repeat("\x08\x01", 8 << 20)))},
      {"packed tokens, one at a time",
       Message(kQuestion, Message(kPrefix, Repeat("\x0a\x01\x01", 4 << 20)))},
      {"unknown fields", Repeat("\x50\x01", 8 << 20)},
      {"unknown fields of a question", Message(kQuestion, Repeat("\x50\x01", 8 << 20))},
      {"unknown fields with long tags", Repeat("\xd0\x01\x01", 4 << 20)},
      {"overlong zeros",
       Repeat(std::string("\x50\x80\x80\x80\x80\x80\x80\x80\x80\x80\x00", 11), 2 << 20)},
      {"groups", Repeat("\x7b\x7c", 8 << 20)},
      {"outputs again and again", Repeat(std::string("\x22\x00", 2), 8 << 20)},
      {"outputs set again and again", Message(0x22, Repeat("\x20\x01", 8 << 20))},
      {"routing again and again", Repeat(std::string("\x2a\x00", 2), 8 << 20)},
      {"a priority again and again", Repeat("\x30\x01", 8 << 20)},
      {"a request id again and again", Repeat("\x0a\x01x", 8 << 20)},
      {"a long id", Message(0x0a, std::string(32 << 20, 'x'))},
      {"an id of two-byte letters", Message(0x0a, Repeat("\xc3\xa9", 16 << 20))},
      {"garbage", std::string(32 << 20, '\xff')},
  };
}

}  // namespace canopy::server
