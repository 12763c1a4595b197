#include "server/wire/model_message.h"

#include <string>
#include <utility>

#include "base/version.h"
#include "server/wire/output_checks.h"
#include "server/wire/routing_message.h"

namespace canopy::server {

v1::Model ModelMessage(const ModelInfo& info, const LimitMap& limits) {
  v1::Model model;
  model.set_name(info.name);
  model.set_version(static_cast<uint64_t>(info.version));
  model.set_fingerprint(info.fingerprint);
  model.set_architecture(info.architecture);
  model.set_parameters(static_cast<uint64_t>(info.parameters));
  model.set_hidden_size(static_cast<uint64_t>(info.hidden_size));
  model.set_vocab_size(static_cast<uint64_t>(info.vocab_size));
  model.set_max_path_tokens(static_cast<uint64_t>(info.max_path_tokens));
  for (std::string& head : HeadNames(info)) {
    model.add_heads(std::move(head));
  }
  model.set_dtype(info.dtype);
  model.set_device(info.device);
  model.set_support(info.tree_supported ? "tree" : "path");
  model.set_support_reason(info.support_reason);
  model.set_default_policy(ToWire(info.default_policy));
  model.set_policy_reason(info.policy_reason);
  for (const auto& [name, value] : limits) {
    (*model.mutable_limits())[name] = static_cast<uint64_t>(value);
  }
  model.set_vocabulary_hash(info.vocabulary_hash);
  model.set_build(kVersion);
  model.set_num_labels(static_cast<uint64_t>(info.num_labels));
  for (const char* form : {"ids", "raw", "raw64"}) {
    model.add_token_forms(form);
  }
  model.set_pooling(info.pooling);
  model.set_folder_normalizes(info.folder_normalizes);
  if (info.pad_token.has_value()) {
    model.set_pad_token(static_cast<uint32_t>(*info.pad_token));
  }
  return model;
}

}  // namespace canopy::server
