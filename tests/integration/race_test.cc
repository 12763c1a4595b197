// The ThreadSanitizer configuration finds a race that is planted in a handler of a gRPC server.
#include <cstdlib>
#include <memory>
#include <thread>

#include "absl/base/config.h"
#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "base/mutex.h"
#include "canopy/v1/scorer.grpc.pb.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/security/credentials.h"
#include "grpcpp/security/server_credentials.h"
#include "grpcpp/server.h"
#include "grpcpp/server_builder.h"
#include "grpcpp/support/server_callback.h"
#include "gtest/gtest.h"

namespace canopy::testing {
namespace {

#if defined(ABSL_HAVE_THREAD_SANITIZER)
constexpr bool kThreadSanitizer = true;
#else
constexpr bool kThreadSanitizer = false;
#endif

// Counts calls without a lock. Each of two calls waits for the other before it counts, so that they
// run on different threads.
class RacyCounter {
 public:
  void Count() {
    {
      MutexLock lock(&mutex_);
      ++arrived_;
      mutex_.Await(Condition(
          +[](int* arrived) { return *arrived == 2; }, &arrived_));
    }
    ++calls_;
  }

 private:
  Mutex mutex_;
  int arrived_ ABSL_GUARDED_BY(mutex_) = 0;
  int calls_ = 0;
};

// Counts in the threads of gRPC.
class SyncScorer : public v1::Scorer::Service {
 public:
  grpc::Status GetModel(grpc::ServerContext* /*context*/, const v1::GetModelRequest* /*request*/,
                        v1::Model* /*response*/) override {
    counter_.Count();
    return grpc::Status::OK;
  }

 private:
  RacyCounter counter_;
};

// A call that counts in a thread of its own and hands over to gRPC as the server's calls do.
class CountingCall : public grpc::ServerUnaryReactor {
 public:
  explicit CountingCall(RacyCounter* counter) : thread_([this, counter] { Run(counter); }) {}

 private:
  void Run(RacyCounter* counter) {
    counter->Count();
    HandOver(this);
    Finish(grpc::Status::OK);
  }
  void OnCancel() override { const CallbackScope scope(this); }
  void OnDone() override {
    TakeOver(this);
    thread_.join();
    delete this;
  }

  std::thread thread_;
};

class CallbackScorer : public v1::Scorer::CallbackService {
 public:
  grpc::ServerUnaryReactor* GetModel(grpc::CallbackServerContext* /*context*/,
                                     const v1::GetModelRequest* /*request*/,
                                     v1::Model* /*response*/) override {
    auto* call = new CountingCall(&counter_);
    HandOver(call);
    return call;
  }

 private:
  RacyCounter counter_;
};

template <typename Scorer>
void CallTwiceAtOnce() {
  Scorer service;
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

template <typename Scorer>
void ExpectThePlantedRace() {
  if (!kThreadSanitizer) {
    GTEST_SKIP() << "only ThreadSanitizer finds races";
  }
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        CallTwiceAtOnce<Scorer>();
        std::exit(0);
      },
      ::testing::ExitedWithCode(66), "data race [^ ]*race_test.cc:[0-9:]+ in .*Count");
}

TEST(RaceTest, ARaceInAHandlerIsFound) { ExpectThePlantedRace<SyncScorer>(); }

TEST(RaceTest, ARaceBetweenAnnotatedCallsIsFound) { ExpectThePlantedRace<CallbackScorer>(); }

}  // namespace
}  // namespace canopy::testing
