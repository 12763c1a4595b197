#include "server/wire/grpc_status.h"

#include "absl/strings/match.h"
#include "absl/time/time.h"
#include "base/status_details.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "gtest/gtest.h"
#include "server/wire/violations.h"

namespace canopy::server {
namespace {

google::rpc::Status Details(const WireError& error) {
  google::rpc::Status details;
  EXPECT_TRUE(details.ParseFromString(error.status.error_details()));
  return details;
}

TEST(GrpcStatusTest, OkAndPlainErrorsHaveNoDetails) {
  EXPECT_TRUE(ToWireError(absl::OkStatus()).status.ok());
  const WireError error = ToWireError(absl::UnavailableError("loading"));
  EXPECT_EQ(error.status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(error.status.error_message(), "loading");
  EXPECT_EQ(error.status.error_details(), "");
  EXPECT_FALSE(error.retry_pushback_ms.has_value());
}

TEST(GrpcStatusTest, ViolationsBecomeBadRequest) {
  Violations violations;
  EXPECT_TRUE(violations.ToStatus().ok());
  violations.Add("a[0].b", "wrong");
  violations.Add("c", "worse");
  const WireError error = ToWireError(violations.ToStatus());
  EXPECT_EQ(error.status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(error.status.error_message(), "a[0].b: wrong; c: worse");
  const google::rpc::Status details = Details(error);
  EXPECT_EQ(details.code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(details.message(), error.status.error_message());
  ASSERT_EQ(details.details_size(), 1);
  google::rpc::BadRequest bad_request;
  ASSERT_TRUE(details.details(0).UnpackTo(&bad_request));
  ASSERT_EQ(bad_request.field_violations_size(), 2);
  EXPECT_EQ(bad_request.field_violations(0).field(), "a[0].b");
  EXPECT_EQ(bad_request.field_violations(1).description(), "worse");
}

TEST(GrpcStatusTest, RetriesAreToldWhen) {
  const WireError error = ToWireError(
      WithRetryAfter(absl::ResourceExhaustedError("queue full"), absl::Milliseconds(2'345)));
  EXPECT_EQ(error.retry_pushback_ms, "2345");
  google::rpc::RetryInfo retry;
  ASSERT_TRUE(Details(error).details(0).UnpackTo(&retry));
  EXPECT_EQ(retry.retry_delay().seconds(), 2);
  EXPECT_EQ(retry.retry_delay().nanos(), 345'000'000);
}

TEST(GrpcStatusTest, OtherExhaustionIsNotRetried) {
  const WireError error = ToWireError(ErrorFor(ErrorReason::kPathTooLargeForDevice, "too big"));
  EXPECT_EQ(error.retry_pushback_ms, "-1");
  google::rpc::ErrorInfo info;
  ASSERT_TRUE(Details(error).details(0).UnpackTo(&info));
  EXPECT_EQ(info.reason(), "PATH_TOO_LARGE_FOR_DEVICE");
  EXPECT_EQ(info.domain(), "canopy.v1");
}

TEST(GrpcStatusTest, OurBugsShowOnlyAnId) {
  std::string previous;
  for (const absl::StatusCode code :
       {absl::StatusCode::kInternal, absl::StatusCode::kUnknown, absl::StatusCode::kAborted,
        absl::StatusCode::kOutOfRange, absl::StatusCode::kAlreadyExists,
        static_cast<absl::StatusCode>(99)}) {
    const WireError error = ToWireError(
        WithErrorReason(absl::Status(code, "weights at /secret"), ErrorReason::kMemoryFull));
    EXPECT_EQ(error.status.error_code(), grpc::StatusCode::INTERNAL);
    EXPECT_TRUE(absl::StartsWith(error.status.error_message(), "internal error "));
    EXPECT_EQ(error.status.error_message().size(), 15U + 16);
    EXPECT_EQ(error.status.error_details(), "");
    EXPECT_NE(error.status.error_message(), previous);
    previous = error.status.error_message();
  }
}

TEST(GrpcStatusTest, TextIsOneLineOfAtMostAKibibyte) {
  EXPECT_EQ(ToWireError(absl::UnavailableError("first\nsecond")).status.error_message(), "first");
  const std::string exact(1'024, 'x');
  EXPECT_EQ(ToWireError(absl::UnavailableError(exact)).status.error_message(), exact);
  const std::string cut =
      ToWireError(absl::UnavailableError(std::string(1'020, 'x') + "\u00e9\u00e9\u00e9"))
          .status.error_message();
  EXPECT_EQ(cut, std::string(1'020, 'x') + "...");
}

TEST(GrpcStatusTest, ClientTextIsPrintableAndShort) {
  EXPECT_EQ(QuotedForError("plain"), "plain");
  EXPECT_EQ(QuotedForError("a\n\xc3\xa9"), "a\\n\\xc3\\xa9");
  EXPECT_EQ(QuotedForError(std::string(1'000, 'x')), std::string(128, 'x') + "...");
}

}  // namespace
}  // namespace canopy::server
