#include "client/cli/model_table.h"

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cli/text_table.h"
#include "client/enum_names.h"

namespace canopy::client {
namespace {

std::string Support(const v1::Model& model) {
  return model.support_reason().empty()
             ? model.support()
             : absl::StrCat(model.support(), " (", model.support_reason(), ")");
}

std::string Pooling(const v1::Model& model) {
  return absl::StrCat(
      model.pooling(),
      model.pooling().empty() || model.pooling() == "last" ? ""
                                                           : " (vectors here are the last token's)",
      model.folder_normalizes() ? " normalized (here by outputs.normalize alone)" : "");
}

std::string PadToken(const v1::Model& model) {
  return model.has_pad_token()
             ? absl::StrCat(model.pad_token(), " (a path that ends in it is scored at that token)")
             : "";
}

std::string DefaultPolicy(const v1::Model& model) {
  const std::string policy(EnumName(model.default_policy()));
  return model.policy_reason().empty() ? policy
                                       : absl::StrCat(policy, " (", model.policy_reason(), ")");
}

std::vector<std::pair<std::string, std::string>> Properties(const v1::Model& model) {
  std::vector<std::pair<std::string, std::string>> properties = {
      {"version", absl::StrCat(model.version())},
      {"fingerprint", model.fingerprint()},
      {"architecture", model.architecture()},
      {"parameters", absl::StrCat(model.parameters())},
      {"hidden_size", absl::StrCat(model.hidden_size())},
      {"vocab_size", absl::StrCat(model.vocab_size())},
      {"max_path_tokens", absl::StrCat(model.max_path_tokens())},
      {"num_labels", absl::StrCat(model.num_labels())},
      {"heads", absl::StrJoin(model.heads(), " ")},
      {"dtype", model.dtype()},
      {"device", model.device()},
      {"support", Support(model)},
      {"default_policy", DefaultPolicy(model)},
      {"vocabulary_hash", model.vocabulary_hash()},
      {"token_forms",
       model.token_forms().empty() ? "ids raw" : absl::StrJoin(model.token_forms(), " ")},
      {"pooling", Pooling(model)},
      {"pad_token", PadToken(model)},
      {"build", model.build()},
  };
  // A protobuf map has no defined order, so the entries are sorted.
  for (const auto& [name, value] :
       std::map<std::string, uint64_t>(model.limits().begin(), model.limits().end())) {
    properties.emplace_back(absl::StrCat("limit ", name), absl::StrCat(value));
  }
  return properties;
}

std::string ModelTable(const v1::Model& model, int index, const Palette& palette) {
  TextTable table({{"model", TextTable::Align::kLeft},
                   {ShownId(model.name(), index), TextTable::Align::kLeft}});
  for (const auto& [name, value] : Properties(model)) {
    table.AddRow({EscapeForTerminal(name), value.empty() ? "-" : EscapeForTerminal(value)});
  }
  std::vector<std::string> lines = table.Lines();
  lines[0] = palette.Heading(lines[0]);
  return absl::StrJoin(lines, "\n") + "\n";
}

}  // namespace

std::string ModelTables(const v1::ListModelsResponse& response, const Palette& palette) {
  std::string text;
  for (int i = 0; i < response.models_size(); ++i) {
    absl::StrAppend(&text, i == 0 ? "" : "\n", ModelTable(response.models(i), i, palette));
  }
  return text;
}

}  // namespace canopy::client
