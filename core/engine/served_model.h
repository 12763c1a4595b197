// The weights that serve a model in an engine, and their replacement. Versions only increase.
#ifndef CORE_ENGINE_SERVED_MODEL_H_
#define CORE_ENGINE_SERVED_MODEL_H_

#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "base/mutex.h"
#include "core/engine/forward_limit.h"
#include "core/engine/model_runner.h"
#include "core/engine/types.h"

namespace canopy {

// Returns OK if the weights of `next` may replace those of `served`: both accept the same requests
// at the same cost. Otherwise returns FAILED_PRECONDITION that names the first different property,
// with both values.
absl::Status CheckReplaces(const ModelInfo& next, const ModelInfo& served);

// Thread-safe. Replaced weights are freed with their last user.
class ServedModel {
 public:
  explicit ServedModel(std::shared_ptr<ModelRunner> runner);
  ServedModel(const ServedModel&) = delete;
  ServedModel& operator=(const ServedModel&) = delete;

  const std::string& name() const { return name_; }
  std::shared_ptr<ModelRunner> runner() const ABSL_LOCKS_EXCLUDED(mutex_);
  std::shared_ptr<const ModelInfo> info() const { return runner()->info(); }
  // Returns the largest forward that is known to fit the device with the weights that serve.
  ForwardLimit& forward_limit() const { return forward_limit_; }

  // Makes `next` serve. Returns the errors of CheckReplaces, and FAILED_PRECONDITION unless its
  // version is the next one and its fingerprint is `expected_fingerprint` ('' = any).
  absl::Status Replace(std::shared_ptr<ModelRunner> next, absl::string_view expected_fingerprint)
      ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  const std::string name_;
  mutable Mutex mutex_;
  std::shared_ptr<ModelRunner> runner_ ABSL_GUARDED_BY(mutex_);  // never null
  mutable ForwardLimit forward_limit_;                           // thread-safe by itself
};

// Returns FAILED_PRECONDITION that names both unless `expected` is empty or equals `fingerprint`.
absl::Status CheckFingerprint(absl::string_view fingerprint, absl::string_view expected);

}  // namespace canopy

#endif  // CORE_ENGINE_SERVED_MODEL_H_
