#include "server/telemetry/grpc_log.h"

#include <string>

#include "base/logging.h"
#include "gmock/gmock.h"
#include "grpc/support/log.h"
#include "gtest/gtest.h"

namespace canopy::server {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string LogOf(const std::string& message) {
  // gRPC sets the same level at its start.
  gpr_set_log_verbosity(GPR_LOG_SEVERITY_ERROR);
  InstallGrpcLog();
  ::testing::internal::CaptureStderr();
  gpr_log(GPR_ERROR, "%s", message.c_str());
  return ::testing::internal::GetCapturedStderr();
}

TEST(GrpcLogTest, AComplaintHasItsPlace) {
  const std::string line = LogOf("no \"good\"\n");
  EXPECT_THAT(line, HasSubstr("ERROR grpc message=\"no \\\"good\\\"\\u000a\""));
  EXPECT_THAT(line, HasSubstr("source=grpc_log_test.cc:"));
  EXPECT_THAT(line, Not(HasSubstr("/")));
}

// gRPC quotes headers that it cannot parse, and a client may send 16 KiB of them.
TEST(GrpcLogTest, TextFromAPeerIsCut) {
  const std::string line = LogOf("bad value=" + std::string(15'000, '\xff'));
  EXPECT_THAT(line, HasSubstr("bad value="));
  EXPECT_LT(line.size(), 128 * 6 + 150) << "each byte may be escaped";
  EXPECT_LT(LogOf(std::string(15'000, 'y')).size(), 128 + 150);
}

}  // namespace
}  // namespace canopy::server
