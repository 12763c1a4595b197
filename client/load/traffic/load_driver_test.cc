// Tests the driver against in-process servers: sending, counting, retrying, giving up, and finding
// wrong answers.
#include "client/load/traffic/load_driver.h"

#include <cmath>
#include <functional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "base/mutex.h"
#include "client/load/traffic/testing/hash_scorer.h"
#include "client/load/traffic/testing/run_to_end.h"
#include "client/testing/fake_scorer.h"
#include "gmock/gmock.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "gtest/gtest.h"

namespace canopy::client {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::SizeIs;

grpc::Status Answer(grpc::ServerContext* /*context*/, const v1::ScoreRequest& request,
                    v1::ScoreResponse* response) {
  *response = HashAnswer(request);
  return grpc::Status::OK;
}

// Ends when the client has gone.
grpc::Status AnswerNobody(grpc::ServerContext* context, const v1::ScoreRequest& /*request*/,
                          v1::ScoreResponse* /*response*/) {
  while (!context->IsCancelled()) {
    std::this_thread::yield();
  }
  return grpc::Status::CANCELLED;
}

// Returns a refusal with google.rpc details.
template <typename Detail>
grpc::Status Refusal(grpc::StatusCode code, const Detail& detail) {
  google::rpc::Status details;
  details.add_details()->PackFrom(detail);
  return grpc::Status(code, "refused", details.SerializeAsString());
}

class LoadDriverTest : public ::testing::Test {
 protected:
  LoadDriverTest() : pool_(HashPool()) {
    server_.score = Answer;
    options_.targets = {{server_.target(), 1}};
    options_.clients = 4;
    options_.duration = kForever;
    options_.max_requests = 40;
    options_.client.initial_backoff = absl::Milliseconds(1);
    options_.latency_goal = kForever;
  }

  LoadResult Run() {
    HandOver(&server_);
    LoadResult result = RunToEnd(options_, &pool_, &interval_);
    TakeOver(&server_);
    return result;
  }

  FakeScorer server_;
  DriverOptions options_;
  RequestPool pool_;
  Interval interval_;
};

TEST_F(LoadDriverTest, ClosedLoopSendsAndCountsEachRequestOnce) {
  options_.verify = true;
  options_.completion_threads = 2;
  options_.connections = 3;
  Mutex mutex;
  std::multiset<std::string> ids;
  server_.score = [&](auto* context, const v1::ScoreRequest& request, auto* response) {
    MutexLock lock(&mutex);
    ids.insert(request.request_id());
    return Answer(context, request, response);
  };
  const LoadResult result = Run();
  EXPECT_EQ(result.started, 40U);
  EXPECT_EQ(server_.num_calls(), 40);
  EXPECT_EQ(std::set<std::string>(ids.begin(), ids.end()).size(), 40U);
  EXPECT_EQ(result.total.num(CallOutcome::kAnswered), 40U);
  EXPECT_EQ(result.total.num_candidates(CallOutcome::kAnswered), 240U);
  EXPECT_EQ(result.total.questions, 80U);
  EXPECT_EQ(result.total.input_tokens, 40U * 6 * 9);
  EXPECT_EQ(result.total.unique_tokens, 40U * 2 * (5 + 3 * 4));
  EXPECT_EQ(result.total.computed_tokens, 40U);
  EXPECT_EQ(result.total.within_goal, 40U);
  EXPECT_EQ(result.total.latency.count(), 40);
  EXPECT_THAT(result.total.outcomes, ElementsAre(Pair("OK", 40)));
  EXPECT_THAT(result.total.routes, ElementsAre(Pair("dense", 40)));
  EXPECT_EQ(result.total.stages[static_cast<size_t>(Stage::kDevice)].max(),
            absl::Microseconds(250));
  EXPECT_GT(result.elapsed, absl::ZeroDuration());
  EXPECT_EQ(interval_.answered, 40U);
  EXPECT_EQ(interval_.candidates, 240U);
  EXPECT_EQ(interval_.in_flight, 0);
}

TEST_F(LoadDriverTest, TheWarmUpIsSentButNotCounted) {
  options_.warmup = kForever;
  const LoadResult result = Run();
  EXPECT_EQ(result.total.total(), 0U);
  EXPECT_EQ(result.all_calls.num(CallOutcome::kAnswered), 40U);
  EXPECT_EQ(result.elapsed, absl::ZeroDuration());
}

TEST_F(LoadDriverTest, RefusalsAreCountedByCodeAndReason) {
  server_.score = [this](auto* /*context*/, const v1::ScoreRequest& /*request*/, auto* /*r*/) {
    google::rpc::ErrorInfo info;
    info.set_reason("PATH_TOO_LARGE_FOR_DEVICE");
    // A refusal without a delay must not be retried.
    return server_.num_calls() % 2 == 0 ? Refusal(grpc::StatusCode::RESOURCE_EXHAUSTED, info)
                                        : grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, "wrong");
  };
  options_.client.max_attempts = 3;
  options_.clients = 1;
  options_.max_requests = 4;
  const LoadResult result = Run();
  EXPECT_EQ(result.total.num(CallOutcome::kRefused), 4U);
  EXPECT_EQ(result.total.retries, 0U);
  EXPECT_EQ(result.total.error_share(), 1);
  EXPECT_THAT(result.total.outcomes,
              ElementsAre(Pair("INVALID_ARGUMENT", 2),
                          Pair("RESOURCE_EXHAUSTED PATH_TOO_LARGE_FOR_DEVICE", 2)));
  EXPECT_EQ(result.total.latency.count(), 0);
}

TEST_F(LoadDriverTest, RetriesAreCounted) {
  // Each request is refused twice, then answered. Counts by request, because other requests come in
  // between.
  Mutex mutex;
  std::map<std::string, int> attempts;
  server_.score = [&](auto* context, const v1::ScoreRequest& request, auto* response) {
    MutexLock lock(&mutex);
    const int attempt = ++attempts[request.request_id()];
    google::rpc::RetryInfo info;
    info.mutable_retry_delay()->set_nanos(1'000);
    return attempt == 1   ? Refusal(grpc::StatusCode::RESOURCE_EXHAUSTED, info)
           : attempt == 2 ? grpc::Status(grpc::StatusCode::UNAVAILABLE, "draining")
                          : Answer(context, request, response);
  };
  options_.client.max_attempts = 3;
  const LoadResult answered = Run();
  EXPECT_EQ(answered.total.num(CallOutcome::kAnswered), 40U);
  EXPECT_EQ(answered.total.retries, 80U);
  EXPECT_EQ(answered.total.error_share(), 0);

  attempts.clear();
  options_.client.max_attempts = 2;
  options_.max_requests = 4;
  const LoadResult refused = Run();
  EXPECT_EQ(refused.total.retries, 4U);
  EXPECT_THAT(refused.total.outcomes, ElementsAre(Pair("UNAVAILABLE", 4)));
}

TEST_F(LoadDriverTest, CallsCanBeCancelledOrTheirConnectionsCut) {
  server_.score = AnswerNobody;
  options_.abandon_within = absl::Milliseconds(1);
  options_.max_requests = 12;
  options_.cancel_share = 1;
  EXPECT_THAT(Run().total.outcomes, ElementsAre(Pair("cancelled here", 12)));
  options_.cancel_share = 0;
  options_.kill_share = 1;
  const LoadResult killed = Run();
  EXPECT_THAT(killed.total.outcomes, ElementsAre(Pair("killed here", 12)));
  EXPECT_EQ(killed.total.error_share(), 0);
  EXPECT_EQ(interval_.given_up, 12U);
}

TEST_F(LoadDriverTest, AnswersThatComeInTimeAreCheckedThoughTheCallWasToBeGivenUp) {
  options_.abandon_within = kForever;
  options_.cancel_share = 0.5;
  options_.kill_share = 0.5;
  options_.verify = true;
  EXPECT_THAT(Run().total.outcomes, ElementsAre(Pair("OK", 40)));
}

// A server that changes some of its answers.
using Corrupt = std::function<void(v1::ScoreResponse*)>;

v1::CandidateResult* Candidate(v1::ScoreResponse* response, int question, int candidate) {
  return response->mutable_results(question)->mutable_candidates(candidate);
}

TEST_F(LoadDriverTest, VerifyModeCatchesEveryFault) {
  const struct {
    const char* name;
    Corrupt corrupt;
    std::string found;
  } cases[] = {
      {"two candidates change places",
       [](auto* r) { r->mutable_results(0)->mutable_candidates()->SwapElements(0, 2); },
       "questions[0].candidates[0].id: expected 'c0', got 'c2'"},
      {"two scores change places",
       [](auto* r) {
         const float score = r->results(1).candidates(0).score();
         Candidate(r, 1, 0)->set_score(r->results(1).candidates(1).score());
         Candidate(r, 1, 1)->set_score(score);
       },
       "questions[1].candidates[0].score: expected 0."},
      {"two questions change places", [](auto* r) { r->mutable_results()->SwapElements(0, 1); },
       "questions[0].id: expected q0, got q1"},
      {"a candidate twice",
       [](auto* r) { *r->mutable_results(1)->add_candidates() = r->results(1).candidates(0); },
       "questions[1].candidates: expected 3, got 4"},
      {"a candidate in another's place",
       [](auto* r) { Candidate(r, 0, 1)->CopyFrom(r->results(0).candidates(0)); },
       "questions[0].candidates[1].id: expected 'c1', got 'c0'"},
      {"a candidate lost",
       [](auto* r) { r->mutable_results(0)->mutable_candidates()->RemoveLast(); },
       "questions[0].candidates: expected 3, got 2"},
      {"a score lost", [](auto* r) { Candidate(r, 0, 1)->clear_score(); },
       "questions[0].candidates[1].score: expected 0."},
      {"a score off by 0.001",
       [](auto* r) { Candidate(r, 1, 2)->set_score(r->results(1).candidates(2).score() + 1e-3F); },
       "questions[1].candidates[2].score: expected 0."},
      {"not finite", [](auto* r) { Candidate(r, 1, 2)->set_score(std::nanf("")); }, "got nan"},
      {"another request's id", [](auto* r) { r->set_request_id("load-999"); },
       "request_id: expected load-"},
      {"nothing", [](auto* r) { r->Clear(); }, "request_id: expected load-"},
  };
  options_.verify = true;
  options_.clients = 1;
  for (const auto& [name, corrupt, found] : cases) {
    SCOPED_TRACE(name);
    const int begin = server_.num_calls();
    server_.score = [this, begin, corrupt = corrupt](auto* context, const v1::ScoreRequest& request,
                                                     auto* response) {
      grpc::Status status = Answer(context, request, response);
      if (server_.num_calls() - begin == 17) {
        corrupt(response);
      }
      return status;
    };
    const LoadResult result = Run();
    EXPECT_EQ(result.total.num(CallOutcome::kWrong), 1U);
    EXPECT_EQ(result.total.num(CallOutcome::kAnswered), 16U);  // sending ends with the wrong answer
    ASSERT_THAT(result.wrong_answers, SizeIs(1));
    EXPECT_THAT(result.wrong_answers[0],
                AllOf(HasSubstr("request load-16 (2x3:5+4, pool "), HasSubstr(found)));
  }
}

// Only the numbers show that the answer belongs to another request of the same size.
TEST_F(LoadDriverTest, VerifyModeCatchesTheAnswerToAnotherRequest) {
  options_.verify = true;
  options_.clients = 1;
  v1::ScoreRequest before;
  server_.score = [&](auto* context, v1::ScoreRequest request, auto* response) {
    if (server_.num_calls() % 10 == 0) {
      std::swap(*request.mutable_questions(), *before.mutable_questions());
    }
    before = request;
    return Answer(context, request, response);
  };
  const LoadResult result = Run();
  ASSERT_THAT(result.wrong_answers, SizeIs(1));
  EXPECT_THAT(result.wrong_answers[0], HasSubstr("questions[0].candidates[0].score: expected"));
}

TEST_F(LoadDriverTest, AnswersAreCheckedWithoutVerifyingToo) {
  server_.score = [](auto* context, const v1::ScoreRequest& request, auto* response) {
    grpc::Status status = Answer(context, request, response);
    response->mutable_results()->RemoveLast();
    return status;
  };
  options_.clients = 1;
  EXPECT_THAT(Run().wrong_answers, Each(HasSubstr("results: 1 instead of 2")));
}

TEST_F(LoadDriverTest, ATraceIsSentInItsOrder) {
  std::vector<std::string> sent;
  server_.score = [&](auto* context, const v1::ScoreRequest& request, auto* response) {
    v1::ScoreRequest pooled = request;
    pooled.clear_request_id();
    sent.push_back(pooled.SerializeAsString());
    return Answer(context, request, response);
  };
  options_.arrivals = TraceArrivals(std::vector<absl::Duration>(pool_.size()));
  options_.in_order = true;
  options_.max_in_flight = 1;
  options_.duration = absl::InfiniteDuration();
  const LoadResult result = Run();
  EXPECT_EQ(result.total.num(CallOutcome::kAnswered), pool_.size());
  ASSERT_THAT(sent, SizeIs(pool_.size()));
  for (size_t i = 0; i < sent.size(); ++i) {
    EXPECT_EQ(sent[i], pool_.at(i).bytes);
  }
}

// Coordinated omission would hide this delay: the second request waits for the first, because only
// one may be in flight, and its latency counts from its intended time.
TEST_F(LoadDriverTest, LatencyCountsFromTheIntendedInstant) {
  options_.arrivals = TraceArrivals({absl::ZeroDuration(), absl::ZeroDuration()});
  options_.max_in_flight = 1;
  const LoadResult result = Run();
  const Tally& total = result.total;
  ASSERT_EQ(total.num(CallOutcome::kAnswered), 2U);
  // The second request was late by at least the service time of the first, and had its own service
  // time in addition.
  const absl::Duration least = total.service_time.min() * (1 - LatencyHistogram::kMaxRelativeError);
  EXPECT_GE(total.lateness.max(), least);
  EXPECT_GE(total.latency.max(), 2 * least);
  EXPECT_GT(total.latency.max(), total.lateness.max());
}

TEST_F(LoadDriverTest, AnOpenLoopDoesNotWaitForAnswers) {
  // No request is answered before all have arrived.
  options_.arrivals = TraceArrivals(std::vector<absl::Duration>(8));
  server_.score = [this](auto* context, const v1::ScoreRequest& request, auto* response) {
    while (server_.num_calls() < 8) {
      std::this_thread::yield();
    }
    return Answer(context, request, response);
  };
  EXPECT_EQ(Run().total.num(CallOutcome::kAnswered), 8U);
}

TEST_F(LoadDriverTest, TargetsGetTheirShares) {
  FakeScorer other;
  other.score = Answer;
  options_.targets = {{server_.target(), 3}, {other.target(), 1}};
  options_.max_requests = 800;
  const LoadResult result = Run();
  ASSERT_THAT(result.targets, SizeIs(2));
  EXPECT_EQ(result.targets[0].tally.num(CallOutcome::kAnswered),
            static_cast<uint64_t>(server_.num_calls()));
  EXPECT_EQ(result.targets[1].tally.num(CallOutcome::kAnswered),
            static_cast<uint64_t>(other.num_calls()));
  EXPECT_EQ(server_.num_calls() + other.num_calls(), 800);
  // The tolerance is six standard deviations of a binomial count.
  EXPECT_NEAR(server_.num_calls(), 600, 6 * std::sqrt(800 * 0.75 * 0.25));
}

TEST_F(LoadDriverTest, EveryCallSendsTheToken) {
  options_.token = "secret";
  server_.score = [](auto* context, const v1::ScoreRequest& request, auto* response) {
    const auto found = context->client_metadata().find("authorization");
    return found != context->client_metadata().end() && found->second == "Bearer secret"
               ? Answer(context, request, response)
               : grpc::Status(grpc::StatusCode::UNAUTHENTICATED, "no token");
  };
  EXPECT_THAT(Run().total.outcomes, ElementsAre(Pair("OK", 40)));
}

TEST_F(LoadDriverTest, StoppingEndsSendingAndWaitsForWhatIsInFlight) {
  options_.max_requests = 0;
  LoadDriver driver(options_, &pool_);
  driver.Start();
  while (server_.num_calls() < 20) {
    std::this_thread::yield();
  }
  driver.Stop();
  EXPECT_TRUE(driver.WaitUntilDone(kForever));
  const LoadResult result = driver.Finish();
  EXPECT_TRUE(result.CheckTotals().ok()) << result.CheckTotals();
  EXPECT_THAT(result.wrong_answers, IsEmpty());
  EXPECT_EQ(result.started, static_cast<uint64_t>(server_.num_calls()));
}

}  // namespace
}  // namespace canopy::client
