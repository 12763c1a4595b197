#include "client/json_lines.h"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace canopy::client {
namespace {

using Json = nlohmann::json;

constexpr size_t kMaxKeyBytes = 40;  // an error text shows at most this part of a key
constexpr absl::string_view kUtf8Mark = "\xef\xbb\xbf";
constexpr absl::string_view kUtf16Marks[] = {"\xff\xfe", "\xfe\xff"};

// Builds the document from the parser's events. An event handler that returns false stops the
// parser.
class StrictBuilder : public nlohmann::json_sax<Json> {
 public:
  bool null() override { return Add(nullptr) != nullptr; }
  bool boolean(bool value) override { return Add(value) != nullptr; }
  bool number_integer(number_integer_t value) override { return Add(value) != nullptr; }
  bool number_unsigned(number_unsigned_t value) override { return Add(value) != nullptr; }
  bool number_float(number_float_t value, const string_t& /*text*/) override {
    return Add(value) != nullptr;
  }
  bool string(string_t& value) override { return Add(std::move(value)) != nullptr; }
  bool binary(binary_t& /*value*/) override { return Fail("binary values are not JSON"); }
  bool start_object(size_t /*size*/) override { return Open(Json::object()); }
  bool start_array(size_t /*size*/) override { return Open(Json::array()); }
  bool end_object() override { return Close(); }
  bool end_array() override { return Close(); }

  bool key(string_t& value) override {
    if (open_.back()->contains(value)) {
      const std::string place = Place();
      return Fail(absl::StrCat(place, place.empty() ? "" : ": ", "the key \"",
                               absl::CHexEscape(value.substr(0, kMaxKeyBytes)),
                               "\" is given twice: leave one"));
    }
    keys_.back() = std::move(value);
    return true;
  }

  bool parse_error(size_t position, const std::string& /*token*/,
                   const nlohmann::detail::exception& error) override {
    constexpr int kNumberOutOfRange = 406;
    return Fail(
        absl::StrCat("column ", position, ": ",
                     error.id == kNumberOutOfRange ? "the number is out of range" : "not JSON"));
  }

  absl::StatusOr<Json> Finish() && {
    if (!problem_.empty()) {
      return absl::InvalidArgumentError(problem_);
    }
    return std::move(root_);
  }

 private:
  bool Fail(std::string problem) {
    problem_ = std::move(problem);
    return false;
  }

  // Returns the open container, such as `candidates[1].tokens`; '' for the document itself.
  std::string Place() const {
    std::string place;
    for (size_t i = 0; i + 1 < open_.size(); ++i) {
      if (open_[i]->is_array()) {
        absl::StrAppend(&place, "[", open_[i]->size() - 1, "]");
      } else {
        absl::StrAppend(&place, place.empty() ? "" : ".",
                        absl::CHexEscape(keys_[i].substr(0, kMaxKeyBytes)));
      }
    }
    return place;
  }

  // Stores `value` at the current place. Addresses of open containers stay valid, because nothing
  // is added to a container while one of its members is open.
  Json* Add(Json value) {
    if (open_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    Json& parent = *open_.back();
    if (parent.is_array()) {
      parent.push_back(std::move(value));
      return &parent.back();
    }
    return &(parent[keys_.back()] = std::move(value));
  }

  bool Open(Json container) {
    if (open_.size() == static_cast<size_t>(kMaxJsonDepth)) {
      return Fail(absl::StrCat("nested deeper than ", kMaxJsonDepth));
    }
    open_.push_back(Add(std::move(container)));
    keys_.emplace_back();
    return true;
  }

  bool Close() {
    open_.pop_back();
    keys_.pop_back();
    return true;
  }

  Json root_;
  std::vector<Json*> open_;
  std::vector<std::string> keys_;  // for each open object, the key whose value is being read
  std::string problem_;
};

// Explains JSON that is not one document per line; '' for other text.
std::string LayoutHint(absl::string_view first_line) {
  const absl::string_view text = absl::StripAsciiWhitespace(first_line);
  if (absl::StartsWith(text, "[")) {
    return "a JSON list where lines are wanted: write one object a line, without the brackets and "
           "the commas between objects (`jq -c '.[]' FILE` does that)";
  }
  // Only an object that is spread over several lines begins like this.
  if (text == "{" || (absl::StartsWith(text, "{") && absl::EndsWith(text, ","))) {
    return "the object goes on in the next line: write one object a line (`jq -c . FILE` does "
           "that)";
  }
  return "";
}

absl::Status AtLine(int64_t number, absl::string_view problem) {
  return absl::InvalidArgumentError(absl::StrCat("line ", number, ": ", problem));
}

}  // namespace

absl::StatusOr<Json> ParseStrictJson(absl::string_view text) {
  // The parser would skip a byte order mark, and treat a NUL byte as the end.
  if (absl::StartsWith(text, kUtf8Mark)) {
    return absl::InvalidArgumentError("column 1: a byte order mark stands only at a file's start");
  }
  if (const size_t nul = text.find('\0'); nul != absl::string_view::npos) {
    return absl::InvalidArgumentError(absl::StrCat("column ", nul + 1, ": not JSON"));
  }
  StrictBuilder builder;
  // The result is ignored, because the builder keeps the error.
  static_cast<void>(Json::sax_parse(text.begin(), text.end(), &builder));
  return std::move(builder).Finish();
}

absl::Status ReadJsonLines(std::istream& input,
                           absl::FunctionRef<absl::Status(const Json& document)> read) {
  std::string line;
  bool is_first = true;
  for (int64_t number = 1; std::getline(input, line); ++number) {
    absl::string_view text = line;
    if (number == 1) {
      if (absl::StartsWith(text, kUtf16Marks[0]) || absl::StartsWith(text, kUtf16Marks[1])) {
        return AtLine(number, "the file is UTF-16: save it as UTF-8");
      }
      absl::ConsumePrefix(&text, kUtf8Mark);
    }
    if (absl::StripAsciiWhitespace(text).empty()) {
      continue;
    }
    const absl::StatusOr<Json> document = ParseStrictJson(text);
    // A list is complete on this line, or begins here.
    const std::string hint =
        is_first && (!document.ok() || document->is_array()) ? LayoutHint(text) : "";
    is_first = false;
    if (!hint.empty()) {
      return AtLine(number, hint);
    }
    if (!document.ok()) {
      return AtLine(number, document.status().message());
    }
    if (const absl::Status status = read(*document); !status.ok()) {
      return AtLine(number, status.message());
    }
  }
  return input.bad() ? absl::DataLossError("reading failed") : absl::OkStatus();
}

}  // namespace canopy::client
