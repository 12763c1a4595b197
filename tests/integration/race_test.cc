// The ThreadSanitizer configuration finds a race that is planted in a handler of a gRPC server.
#include <cstdlib>
#include <memory>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "base/mutex.h"
#include "canopy/v1/scorer.grpc.pb.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/security/credentials.h"
#include "grpcpp/security/server_credentials.h"
#include "grpcpp/server.h"
#include "grpcpp/server_builder.h"
#include "gtest/gtest.h"

#if defined(__SANITIZE_THREAD__)
// gRPC's own threads and locks are those of a library that is not instrumented.
extern "C" const char* __tsan_default_options() { return "ignore_noninstrumented_modules=1"; }
#endif

namespace canopy::testing {
namespace {

#if defined(__SANITIZE_THREAD__)
constexpr bool kThreadSanitizer = true;
#else
constexpr bool kThreadSanitizer = false;
#endif

// Counts its calls without a lock. Each of two calls waits for the other one before it counts, so
// that they run in different threads.
class RacyScorer : public v1::Scorer::Service {
 public:
  grpc::Status GetModel(grpc::ServerContext* /*context*/, const v1::GetModelRequest* /*request*/,
                        v1::Model* /*response*/) override {
    AwaitOther();
    ++calls_;
    return grpc::Status::OK;
  }

 private:
  void AwaitOther() {
    MutexLock lock(&mutex_);
    ++arrived_;
    mutex_.Await(Condition(
        +[](int* arrived) { return *arrived == 2; }, &arrived_));
  }

  Mutex mutex_;
  int arrived_ ABSL_GUARDED_BY(mutex_) = 0;
  int calls_ = 0;
};

void CallTwiceAtOnce() {
  RacyScorer service;
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(&service);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  const auto stub = v1::Scorer::NewStub(
      grpc::CreateChannel(absl::StrCat("127.0.0.1:", port), grpc::InsecureChannelCredentials()));
  const auto call = [&stub] {
    grpc::ClientContext context;
    v1::Model model;
    stub->GetModel(&context, v1::GetModelRequest(), &model);
  };
  std::thread other(call);
  call();
  other.join();
}

TEST(RaceTest, ARaceInAHandlerIsFound) {
  if (!kThreadSanitizer) {
    GTEST_SKIP() << "only ThreadSanitizer finds races";
  }
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        CallTwiceAtOnce();
        std::exit(0);
      },
      ::testing::ExitedWithCode(66), "data race [^ ]*race_test.cc:[0-9]+ in GetModel");
}

}  // namespace
}  // namespace canopy::testing
