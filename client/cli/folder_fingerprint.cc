#include "client/cli/folder_fingerprint.h"

#include <algorithm>
#include <cstdint>
#include <thread>

#include "absl/flags/flag.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "client/cli/flags.h"
#include "core/checkpoint/host_model.h"

namespace canopy::client {
namespace {

constexpr unsigned kMaxThreads = 8;

}  // namespace

absl::StatusOr<std::string> FolderFingerprint(const std::string& source) {
  HostModelOptions options;
  options.source = source;
  options.config = absl::GetFlag(FLAGS_config);
  // The pooling of a folder decides whether it is served, but does not change the fingerprint.
  options.force_last_token_pooling = true;
  options.reading.num_threads =
      static_cast<int>(std::clamp(std::thread::hardware_concurrency(), 1U, kMaxThreads));
  const int64_t yes = absl::GetFlag(FLAGS_reranker_yes_token);
  const int64_t no = absl::GetFlag(FLAGS_reranker_no_token);
  if ((yes >= 0) != (no >= 0)) {
    return absl::InvalidArgumentError(absl::StrCat("--reranker_yes_token=", yes,
                                                   " and --reranker_no_token=", no,
                                                   ": both are needed, or neither"));
  }
  if (yes >= 0) {
    options.reranker = RerankerTokens{yes, no};
  }
  absl::StatusOr<HostModel> model = ReadHostModel(options);
  return model.ok() ? absl::StatusOr<std::string>(model->fingerprint) : model.status();
}

}  // namespace canopy::client
