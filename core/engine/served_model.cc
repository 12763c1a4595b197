#include "core/engine/served_model.h"

#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace canopy {
namespace {

constexpr size_t kMaxShownBytes = 64;

std::string ScoreHeadName(const ModelInfo& model) {
  return model.num_labels == 0 ? "none" : std::string(NameOf(kScoreHeads, model.score_head));
}

absl::Status Differs(absl::string_view what, absl::string_view next, absl::string_view served) {
  const auto shown = [](absl::string_view text) { return text.empty() ? "none" : text; };
  return absl::FailedPreconditionError(absl::StrCat("the checkpoint does not fit the model: ", what,
                                                    " ", shown(next), ", and ", shown(served),
                                                    " is served"));
}

}  // namespace

absl::Status CheckReplaces(const ModelInfo& next, const ModelInfo& served) {
  const struct {
    absl::string_view name;
    std::string next;
    std::string served;
  } properties[] = {
      {"architecture", next.architecture, served.architecture},
      {"parameters", absl::StrCat(next.parameters), absl::StrCat(served.parameters)},
      {"hidden_size", absl::StrCat(next.hidden_size), absl::StrCat(served.hidden_size)},
      {"vocab_size", absl::StrCat(next.vocab_size), absl::StrCat(served.vocab_size)},
      {"vocabulary_hash", next.vocabulary_hash, served.vocabulary_hash},
      {"max_path_tokens", absl::StrCat(next.max_path_tokens), absl::StrCat(served.max_path_tokens)},
      {"score head", ScoreHeadName(next), ScoreHeadName(served)},
      {"num_labels", absl::StrCat(next.num_labels), absl::StrCat(served.num_labels)},
      {"language-model head", next.has_lm_head ? "there" : "", served.has_lm_head ? "there" : ""},
      {"value head", next.has_value_head ? "there" : "", served.has_value_head ? "there" : ""},
      {"dtype", next.dtype, served.dtype},
      {"device", next.device, served.device},
      {"tree backends", next.tree_supported ? "there" : "", served.tree_supported ? "there" : ""},
      {"fused backend", next.fused_supported ? "there" : "", served.fused_supported ? "there" : ""},
  };
  for (const auto& property : properties) {
    if (property.next != property.served) {
      return Differs(property.name, property.next, property.served);
    }
  }
  return absl::OkStatus();
}

absl::Status CheckFingerprint(absl::string_view fingerprint, absl::string_view expected) {
  if (expected.empty() || fingerprint == expected) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(
      absl::StrCat("expected_fingerprint: ", absl::CHexEscape(expected.substr(0, kMaxShownBytes)),
                   " is not the checkpoint's, ", fingerprint));
}

ServedModel::ServedModel(std::shared_ptr<ModelRunner> runner)
    : name_(runner->info()->name), runner_(std::move(runner)) {}

std::shared_ptr<ModelRunner> ServedModel::runner() const {
  MutexLock lock(&mutex_);
  return runner_;
}

absl::Status ServedModel::Replace(std::shared_ptr<ModelRunner> next,
                                  absl::string_view expected_fingerprint) {
  const std::shared_ptr<const ModelInfo> info = next->info();
  CANOPY_RETURN_IF_ERROR(CheckFingerprint(info->fingerprint, expected_fingerprint));
  MutexLock lock(&mutex_);
  const ModelInfo& served = *runner_->info();
  CANOPY_RETURN_IF_ERROR(CheckReplaces(*info, served));
  if (info->version != served.version + 1) {
    return absl::FailedPreconditionError(absl::StrCat(
        "version ", info->version, " cannot follow version ", served.version, ", which is served"));
  }
  // The old weights leave with the caller's pointer, so that the lock is not held while they are
  // freed.
  runner_.swap(next);
  forward_limit_.Reset();
  return absl::OkStatus();
}

}  // namespace canopy
