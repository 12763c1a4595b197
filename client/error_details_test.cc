#include "client/error_details.h"

#include <string>

#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "gtest/gtest.h"

namespace canopy::client {
namespace {

grpc::Status WithDetails(grpc::StatusCode code, const std::string& message,
                         const google::rpc::Status& details) {
  return grpc::Status(code, message, details.SerializeAsString());
}

TEST(ErrorDetailsTest, OkIsOk) { EXPECT_TRUE(ToAbslStatus(grpc::Status::OK).ok()); }

TEST(ErrorDetailsTest, EveryCodeKeepsItsNumber) {
  for (int code = 1; code <= 16; ++code) {
    const absl::Status status =
        ToAbslStatus(grpc::Status(static_cast<grpc::StatusCode>(code), "text"));
    EXPECT_EQ(static_cast<int>(status.code()), code);
    EXPECT_EQ(status.message(), "text");
  }
}

TEST(ErrorDetailsTest, CodesThatGrpcLacksAreUnknown) {
  for (const int code : {-1, 17, 31}) {
    EXPECT_EQ(ToAbslStatus(grpc::Status(static_cast<grpc::StatusCode>(code), "")).code(),
              absl::StatusCode::kUnknown);
  }
}

TEST(ErrorDetailsTest, MessageNamesEveryViolationOnce) {
  google::rpc::BadRequest bad_request;
  auto* first = bad_request.add_field_violations();
  first->set_field("questions[3].candidates[7].tokens");
  first->set_description("2100 tokens exceed max_path_tokens 2048");
  auto* second = bad_request.add_field_violations();
  second->set_field("outputs.temperature");
  second->set_description("-1 is not in (0, 100]");
  google::rpc::Status details;
  details.set_message("2 violations");
  details.add_details()->PackFrom(bad_request);

  const absl::Status status =
      ToAbslStatus(WithDetails(grpc::StatusCode::INVALID_ARGUMENT,
                               "questions[3].candidates[7].tokens: 2100 tokens exceed "
                               "max_path_tokens 2048 and 1 more",
                               details));
  EXPECT_EQ(status.message(),
            "questions[3].candidates[7].tokens: 2100 tokens exceed max_path_tokens 2048 and 1 "
            "more; outputs.temperature: -1 is not in (0, 100]");
  const ErrorDetails decoded = GetErrorDetails(status);
  EXPECT_EQ(decoded.server_message, "2 violations");
  ASSERT_EQ(decoded.violations.size(), 2);
  EXPECT_EQ(decoded.violations[1].field, "outputs.temperature");
  EXPECT_EQ(decoded.violations[1].description, "-1 is not in (0, 100]");
  EXPECT_FALSE(decoded.retry_after.has_value());
}

TEST(ErrorDetailsTest, DecodesTheOtherDetails) {
  google::rpc::RetryInfo retry_info;
  retry_info.mutable_retry_delay()->set_seconds(1);
  retry_info.mutable_retry_delay()->set_nanos(500'000'000);
  google::rpc::ErrorInfo error_info;
  error_info.set_reason("PATH_TOO_LARGE");
  error_info.set_domain("canopy");
  google::rpc::ResourceInfo resource_info;
  resource_info.set_resource_type("model");
  resource_info.set_resource_name("other");
  google::rpc::DebugInfo not_ours;
  google::rpc::Status details;
  details.add_details()->PackFrom(not_ours);
  details.add_details()->PackFrom(retry_info);
  details.add_details()->PackFrom(error_info);
  details.add_details()->PackFrom(resource_info);

  const ErrorDetails decoded = GetErrorDetails(
      ToAbslStatus(WithDetails(grpc::StatusCode::RESOURCE_EXHAUSTED, "full", details)));
  EXPECT_EQ(decoded.retry_after, absl::Milliseconds(1500));
  EXPECT_EQ(decoded.reason, "PATH_TOO_LARGE");
  EXPECT_EQ(decoded.domain, "canopy");
  EXPECT_EQ(decoded.resource_type, "model");
  EXPECT_EQ(decoded.resource_name, "other");
}

TEST(ErrorDetailsTest, GarbageInPlaceOfDetailsKeepsCodeAndMessage) {
  const absl::Status status =
      ToAbslStatus(grpc::Status(grpc::StatusCode::NOT_FOUND, "no model", "\xff\xff\xff"));
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(status.message(), "no model");
  EXPECT_TRUE(GetErrorDetails(status).violations.empty());
}

TEST(ErrorDetailsTest, AStatusOfItsOwnHasNone) {
  EXPECT_TRUE(GetErrorDetails(absl::InternalError("x")).server_message.empty());
  EXPECT_TRUE(GetErrorDetails(absl::OkStatus()).violations.empty());
}

}  // namespace
}  // namespace canopy::client
