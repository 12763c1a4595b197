#include "client/token_forms.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace canopy::client {
namespace {

bool HasRaw64(const v1::Question& question) {
  return !question.prefix().raw64().empty() ||
         std::any_of(
             question.candidates().begin(), question.candidates().end(),
             [](const v1::Candidate& candidate) { return !candidate.tokens().raw64().empty(); });
}

// Reads a little-endian integer on a machine of any byte order.
int64_t Int64At(const std::string& bytes, size_t index) {
  uint64_t value = 0;
  for (size_t byte = 0; byte < sizeof(value); ++byte) {
    value |= uint64_t{static_cast<unsigned char>(bytes[index * sizeof(value) + byte])}
             << (8 * byte);
  }
  return static_cast<int64_t>(value);
}

absl::Status Narrow(v1::TokenIds* ids) {
  if (ids->raw64().empty()) {
    return absl::OkStatus();
  }
  const std::string& bytes = ids->raw64();
  if (!ids->ids().empty() || !ids->raw().empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(ids->ids().empty() ? "raw" : "ids", " and raw64 are both set"));
  }
  if (bytes.size() % sizeof(int64_t) != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("raw64 of ", bytes.size(), " bytes is not a multiple of 8"));
  }
  std::vector<int64_t> tokens(bytes.size() / sizeof(int64_t));
  for (size_t i = 0; i < tokens.size(); ++i) {
    tokens[i] = Int64At(bytes, i);
  }
  return SetTokens(tokens, ids);
}

absl::Status At(const std::string& place, const absl::Status& status) {
  return absl::InvalidArgumentError(absl::StrCat(place, ": ", status.message(), "; not sent"));
}

}  // namespace

absl::Status SetTokens(absl::Span<const int64_t> tokens, v1::TokenIds* ids) {
  std::string raw;
  raw.reserve(tokens.size() * sizeof(int32_t));
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i] < 0 || tokens[i] > std::numeric_limits<int32_t>::max()) {
      return absl::InvalidArgumentError(
          absl::StrCat("token ", tokens[i], " at index ", i, " is not from 0 to 2147483647"));
    }
    for (size_t byte = 0; byte < sizeof(int32_t); ++byte) {
      raw += static_cast<char>(static_cast<uint32_t>(tokens[i]) >> (8 * byte));
    }
  }
  ids->Clear();
  ids->set_raw(std::move(raw));
  return absl::OkStatus();
}

bool HasRaw64(const v1::ScoreRequest& request) {
  return std::any_of(request.questions().begin(), request.questions().end(),
                     [](const v1::Question& question) { return HasRaw64(question); });
}

absl::Status NarrowRaw64(v1::ScoreRequest* request) {
  for (int q = 0; q < request->questions_size(); ++q) {
    v1::Question& question = *request->mutable_questions(q);
    const std::string place = absl::StrCat("questions[", q, "]");
    // The check avoids creating an absent submessage.
    if (!question.prefix().raw64().empty()) {
      if (absl::Status status = Narrow(question.mutable_prefix()); !status.ok()) {
        return At(place + ".prefix", status);
      }
    }
    for (int c = 0; c < question.candidates_size(); ++c) {
      if (question.candidates(c).tokens().raw64().empty()) {
        continue;
      }
      absl::Status status = Narrow(question.mutable_candidates(c)->mutable_tokens());
      if (!status.ok()) {
        return At(absl::StrCat(place, ".candidates[", c, "].tokens"), status);
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace canopy::client
