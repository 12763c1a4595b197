#include "core/ops/torch_guard.h"

#include <new>
#include <stdexcept>
#include <string>

#include "ATen/core/Tensor.h"
#include "ATen/ops/empty.h"
#include "ATen/ops/mm.h"
#include "ATen/ops/ones.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "base/status_details.h"
#include "c10/util/Exception.h"
#include "gtest/gtest.h"

namespace canopy {
namespace {

absl::Status StatusOfText(const std::string& text) {
  return GuardTorch("step", [&]() -> absl::Status { throw std::runtime_error(text); });
}

TEST(TorchGuardTest, PassesResultsThrough) {
  EXPECT_TRUE(GuardTorch("step", [] { return absl::OkStatus(); }).ok());
  const absl::StatusOr<int> value = GuardTorch("step", []() -> absl::StatusOr<int> { return 7; });
  EXPECT_EQ(*value, 7);
  const absl::Status refused = GuardTorch("step", [] { return absl::NotFoundError("no"); });
  EXPECT_EQ(refused, absl::NotFoundError("no"));
}

TEST(TorchGuardTest, FailedAllocationOnTheCpuIsResourceExhausted) {
  const absl::Status status = GuardTorch("forward", []() -> absl::Status {
    const at::Tensor tensor = at::empty({int64_t{1} << 50});
    return absl::OkStatus();
  });
  EXPECT_EQ(status, absl::ResourceExhaustedError("forward: out of memory"));
}

TEST(TorchGuardTest, OutOfMemoryTypesAreResourceExhausted) {
  const auto c10_error = []() -> absl::Status {
    C10_THROW_ERROR(OutOfMemoryError, "CUDA out of memory. Tried to allocate 2 GiB");
  };
  EXPECT_EQ(GuardTorch("step", c10_error).code(), absl::StatusCode::kResourceExhausted);
  const auto bad_alloc = []() -> absl::Status { throw std::bad_alloc(); };
  EXPECT_EQ(GuardTorch("step", bad_alloc).code(), absl::StatusCode::kResourceExhausted);
}

TEST(TorchGuardTest, StickyCudaErrorsAreUnavailable) {
  for (const char* text :
       {"CUDA error: an illegal memory access was encountered",
        "CUDA error: device-side assert triggered", "CUDA error: unspecified launch failure"}) {
    const absl::Status status = StatusOfText(text);
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
    EXPECT_EQ(status.message(), "step: the CUDA device is lost");
    EXPECT_EQ(ErrorReasonName(status), "DEVICE_LOST");
  }
}

TEST(TorchGuardTest, OutOfMemoryTextsAreResourceExhausted) {
  for (const char* text : {"CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling cublasCreate",
                           "DefaultCPUAllocator: not enough memory: you tried to allocate 8 bytes",
                           "CUDA error: out of memory"}) {
    EXPECT_EQ(StatusOfText(text), absl::ResourceExhaustedError("step: out of memory"));
  }
}

TEST(TorchGuardTest, OtherErrorsAreInternalWithoutTraces) {
  const absl::Status status = GuardTorch("forward", []() -> absl::Status {
    const at::Tensor product = at::mm(at::ones({2, 3}), at::ones({2, 3}));
    return absl::OkStatus();
  });
  EXPECT_EQ(status, absl::InternalError("forward: LibTorch failed, see the log"));
  EXPECT_EQ(GuardTorch("step", []() -> absl::Status { throw 7; }).code(),
            absl::StatusCode::kInternal);
}

}  // namespace
}  // namespace canopy
