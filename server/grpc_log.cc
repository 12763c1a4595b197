#include "server/grpc_log.h"

#include <cstdint>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "core/base/logging.h"
#include "core/base/stopwatch.h"
#include "grpc/support/log.h"

namespace canopy::server {
namespace {

constexpr int kMaxLinesPerSecond = 10;
constexpr double kSecondMs = 1000;

// Thread-safe.
class LineBudget {
 public:
  // Lines left out since the last one that was written; -1 = leave this one out too.
  int64_t Take() ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    if (second_.ElapsedMs() >= kSecondMs) {
      second_ = Stopwatch();
      lines_ = 0;
    }
    if (lines_ == kMaxLinesPerSecond) {
      ++left_out_;
      return -1;
    }
    ++lines_;
    const int64_t left_out = left_out_;
    left_out_ = 0;
    return left_out;
  }

 private:
  absl::Mutex mutex_;
  Stopwatch second_ ABSL_GUARDED_BY(mutex_);
  int lines_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t left_out_ ABSL_GUARDED_BY(mutex_) = 0;
};

void WriteLine(gpr_log_func_args* args) {
  // Never destroyed: gRPC's threads may log while the process ends.
  static auto* budget = new LineBudget();
  if (args->severity != GPR_LOG_SEVERITY_ERROR) {
    return;
  }
  if (const int64_t left_out = budget->Take(); left_out >= 0) {
    LogError("grpc", {{"message", std::string(args->message)}, {"left_out", left_out}});
  }
}

}  // namespace

void InstallGrpcLog() { gpr_set_log_function(WriteLine); }

}  // namespace canopy::server
