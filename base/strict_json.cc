#include "base/strict_json.h"

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace canopy {
namespace {

using nlohmann::json;

constexpr size_t kMaxDescriptionCharacters = 100;

// Builds the document from parser events. The parser stops when a handler returns false.
class StrictBuilder : public nlohmann::json_sax<json> {
 public:
  explicit StrictBuilder(const JsonLimits& limits) : limits_(limits) {}

  bool null() override { return Add(nullptr) != nullptr; }
  bool boolean(bool value) override { return Add(value) != nullptr; }
  bool number_integer(json::number_integer_t value) override { return Add(value) != nullptr; }
  bool number_unsigned(json::number_unsigned_t value) override { return Add(value) != nullptr; }
  bool number_float(json::number_float_t value, const std::string& /*text*/) override {
    return Add(value) != nullptr;
  }
  bool string(std::string& value) override { return Add(std::move(value)) != nullptr; }
  bool binary(json::binary_t& /*value*/) override { return Fail("binary value"); }
  bool start_object(size_t /*size*/) override { return Open(json::object()); }
  bool start_array(size_t /*size*/) override { return Open(json::array()); }
  bool end_object() override { return Close(); }
  bool end_array() override { return Close(); }

  bool key(std::string& value) override {
    if (open_.back()->contains(value)) {
      return Fail(absl::StrCat("duplicate key \"",
                               absl::CHexEscape(value.substr(0, kMaxDescriptionCharacters)), "\""));
    }
    key_ = std::move(value);
    return true;
  }

  bool parse_error(size_t position, const std::string& /*token*/,
                   const json::exception& /*error*/) override {
    return Fail(absl::StrCat("not JSON at byte ", position));
  }

  absl::StatusOr<json> Finish() && {
    if (!error_.empty()) {
      return absl::InvalidArgumentError(error_);
    }
    return std::move(root_);
  }

 private:
  bool Fail(std::string message) {
    error_ = std::move(message);
    return false;
  }

  // Stores `value` at the current position; returns null after an error. Pointers to open
  // containers stay valid, because nothing is added to a container while one of its members is
  // open.
  json* Add(json value) {
    if (++num_values_ > limits_.max_values) {
      Fail(absl::StrCat("more than ", limits_.max_values, " JSON values"));
      return nullptr;
    }
    if (open_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    json& parent = *open_.back();
    if (parent.is_array()) {
      parent.push_back(std::move(value));
      return &parent.back();
    }
    return &(parent[key_] = std::move(value));
  }

  bool Open(json container) {
    if (static_cast<int>(open_.size()) >= limits_.max_depth) {
      return Fail(absl::StrCat("JSON nested deeper than ", limits_.max_depth));
    }
    json* const place = Add(std::move(container));
    if (place == nullptr) {
      return false;
    }
    open_.push_back(place);
    return true;
  }

  bool Close() {
    open_.pop_back();
    return true;
  }

  const JsonLimits limits_;
  json root_;
  std::vector<json*> open_;
  std::string key_;
  std::string error_;
  int64_t num_values_ = 0;
};

}  // namespace

absl::StatusOr<json> ParseStrictJson(absl::string_view text, const JsonLimits& limits) {
  if (static_cast<int64_t>(text.size()) > limits.max_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("JSON of ", text.size(), " bytes exceeds ", limits.max_bytes));
  }
  // The parser would treat a NUL byte as the end and ignore the rest.
  if (const size_t nul = text.find('\0'); nul != absl::string_view::npos) {
    return absl::InvalidArgumentError(absl::StrCat("not JSON at byte ", nul));
  }
  StrictBuilder builder(limits);
  // The parser reports every error to the builder, which keeps the first one.
  static_cast<void>(json::sax_parse(text.begin(), text.end(), &builder));
  return std::move(builder).Finish();
}

std::string DescribeJson(const json& value) {
  std::string text = value.dump(-1, ' ', /*ensure_ascii=*/true, json::error_handler_t::replace);
  if (text.size() > kMaxDescriptionCharacters) {
    text.resize(kMaxDescriptionCharacters);
    text += "...";
  }
  return text;
}

}  // namespace canopy
