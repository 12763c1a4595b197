// The place of one model in an engine: which weights serve it now. Versions only go up.
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

// OK where weights of `next` may take the place of `served`: every request that the one takes, the
// other takes too, and costs the same. FAILED_PRECONDITION naming the first property that differs,
// with both values.
absl::Status CheckReplaces(const ModelInfo& next, const ModelInfo& served);

// Thread-safe. Weights that were replaced are freed with their last user.
class ServedModel {
 public:
  explicit ServedModel(std::shared_ptr<ModelRunner> runner);
  ServedModel(const ServedModel&) = delete;
  ServedModel& operator=(const ServedModel&) = delete;

  const std::string& name() const { return name_; }
  std::shared_ptr<ModelRunner> runner() const ABSL_LOCKS_EXCLUDED(mutex_);
  std::shared_ptr<const ModelInfo> info() const { return runner()->info(); }
  // What forwards of the weights that serve were found to fit on the device.
  ForwardLimit& forward_limit() const { return forward_limit_; }

  // From now on `next` serves. Errors as of CheckReplaces, and FAILED_PRECONDITION unless its
  // version follows the one that serves and its fingerprint is `expected_fingerprint` ('' = any).
  absl::Status Replace(std::shared_ptr<ModelRunner> next, absl::string_view expected_fingerprint)
      ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  const std::string name_;
  mutable Mutex mutex_;
  std::shared_ptr<ModelRunner> runner_ ABSL_GUARDED_BY(mutex_);  // never null
  mutable ForwardLimit forward_limit_;                           // thread-safe by itself
};

// FAILED_PRECONDITION naming both unless `expected` is empty or `fingerprint`.
absl::Status CheckFingerprint(absl::string_view fingerprint, absl::string_view expected);

}  // namespace canopy

#endif  // CORE_ENGINE_SERVED_MODEL_H_
