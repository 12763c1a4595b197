#include "core/ops/torch_guard.h"

#include <exception>
#include <new>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "base/logging.h"
#include "base/status_details.h"
#include "c10/util/Exception.h"

namespace canopy {
namespace {

// LibTorch throws its base error type for several of these errors, so only the text tells them
// apart.
constexpr absl::string_view kOutOfMemoryTexts[] = {
    "out of memory",
    "not enough memory",
    "can't allocate memory",
    "CUBLAS_STATUS_ALLOC_FAILED",
    "cudaErrorMemoryAllocation",
    "CUDNN_STATUS_ALLOC_FAILED",
};
constexpr absl::string_view kLostDeviceTexts[] = {
    "illegal memory access",
    "device-side assert",
    "unspecified launch failure",
    "misaligned address",
    "illegal instruction",
    "uncorrectable ECC error",
    "launch timed out",
    "hardware stack error",
    "CUDA-capable device(s) is/are busy or unavailable",
};

bool ContainsAny(absl::string_view text, absl::Span<const absl::string_view> parts) {
  for (const absl::string_view part : parts) {
    if (absl::StrContains(text, part)) {
      return true;
    }
  }
  return false;
}

absl::Status OutOfMemory(absl::string_view what) {
  return absl::ResourceExhaustedError(absl::StrCat(what, ": out of memory"));
}

absl::Status Classify(absl::string_view what, absl::string_view text) {
  // Allocations on a lost device fail too, so the texts of a lost device are checked first.
  if (ContainsAny(text, kLostDeviceTexts)) {
    return ErrorFor(ErrorReason::kDeviceLost, absl::StrCat(what, ": the CUDA device is lost"));
  }
  if (ContainsAny(text, kOutOfMemoryTexts)) {
    return OutOfMemory(what);
  }
  return absl::InternalError(absl::StrCat(what, ": LibTorch failed, see the log"));
}

}  // namespace

absl::Status StatusOfCurrentException(absl::string_view what) {
  std::string text = "not a standard exception";
  absl::Status status;
  try {
    throw;
  } catch (const c10::OutOfMemoryError& error) {
    text = error.what();
    status = OutOfMemory(what);
  } catch (const std::bad_alloc& error) {
    text = error.what();
    status = OutOfMemory(what);
  } catch (const std::exception& error) {
    text = error.what();
    status = Classify(what, text);
  } catch (...) {
    status = Classify(what, text);
  }
  LogError("torch_exception",
           {{"what", what}, {"code", absl::StatusCodeToString(status.code())}, {"text", text}});
  return status;
}

}  // namespace canopy
