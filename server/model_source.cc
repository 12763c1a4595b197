#include "server/model_source.h"

#include <utility>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"
#include "server/option_flags.h"

namespace canopy::server {
namespace {

constexpr absl::string_view kFlag = "model";
constexpr size_t kMaxNameBytes = 128;

// Returns the last part of a path, without .json.
std::string DefaultName(absl::string_view source) {
  absl::ConsumePrefix(&source, "synthetic:");
  while (absl::ConsumeSuffix(&source, "/")) {
  }
  return std::string(absl::StripSuffix(source.substr(source.rfind('/') + 1), ".json"));
}

bool IsName(absl::string_view name) {
  return !name.empty() && name.size() <= kMaxNameBytes && absl::c_all_of(name, [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '_' || c == '-';
  });
}

absl::StatusOr<ModelSource> Parse(const std::string& text) {
  ModelSource model;
  const size_t equals = text.find('=');
  if (equals != std::string::npos && text.find('/') > equals) {
    model.name = text.substr(0, equals);
    model.source = text.substr(equals + 1);
  } else {
    model.source = text;
    model.name = DefaultName(text);
  }
  if (model.source.empty() || !IsName(model.name)) {
    return FlagError(kFlag, text, "[NAME=]FOLDER with a NAME of letters, digits, '.', '_' and '-'");
  }
  return model;
}

}  // namespace

absl::StatusOr<std::vector<ModelSource>> ParseModelSources(absl::Span<const std::string> texts) {
  std::vector<ModelSource> models;
  absl::flat_hash_set<std::string> names;
  for (const std::string& text : texts) {
    CANOPY_ASSIGN_OR_RETURN(ModelSource model, Parse(text));
    if (!names.insert(model.name).second) {
      return FlagError(kFlag, text,
                       absl::StrCat("unique: another is named '", model.name, "' too"));
    }
    models.push_back(std::move(model));
  }
  if (models.empty()) {
    return absl::InvalidArgumentError("--model: at least one is needed");
  }
  return models;
}

}  // namespace canopy::server
