// The load tester in verify mode against a real server with a fake model, while clients cancel and
// die. Every answered candidate is answered once, in its place, with the score of its path alone,
// and no other call is affected.
#include <string>
#include <utility>

#include "client/client.h"
#include "client/load/traffic/expected_answers.h"
#include "client/load/traffic/load_driver.h"
#include "client/load/traffic/request_pool.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/integration/test_server.h"

namespace canopy::testing {
namespace {

using client::CallOutcome;
using ::testing::IsEmpty;

constexpr absl::Duration kForever = absl::Hours(1);

struct LoadCase {
  std::string model;
  v1::Outputs outputs;
  bool open_loop = false;
  client::LoadRpc rpc = client::LoadRpc::kScore;
};

client::LoadResult RunLoad(const std::string& address, const LoadCase& load_case) {
  client::ClientOptions client_options;
  client_options.target = address;
  client::PoolOptions pool_options;
  pool_options.head.set_model(load_case.model);
  *pool_options.head.mutable_outputs() = load_case.outputs;
  pool_options.requests_per_shape = 16;
  // The vocabulary is small, so that tries branch everywhere and paths end inside others.
  pool_options.vocab_size = 3;
  pool_options.max_path_tokens = 2'048;
  auto pool = client::RequestPool::FromMix(
      *client::ParseMix("tiny=4,5x9:3+4=2,1x64:40+2=1,8x16:8+8=1"), pool_options);
  EXPECT_TRUE(pool.ok()) << pool.status();
  const auto client = client::Client::Create(client_options);
  const absl::Status expected = client::ExpectAnswers(client->get(), &*pool);
  EXPECT_TRUE(expected.ok()) << expected;

  client::DriverOptions options;
  options.targets = {{address, 1}};
  options.client = client_options;
  options.rpc = load_case.rpc;
  options.clients = 8;
  options.completion_threads = 2;
  options.connections = 4;
  options.duration = kForever;
  options.max_requests = 1'500;
  const bool streams = load_case.rpc == client::LoadRpc::kStream;
  // On a stream, cancelling one request cancels others too.
  options.cancel_share = streams ? 0.01 : 0.1;
  options.kill_share = streams ? 0.01 : 0.02;
  options.abandon_within = absl::Milliseconds(2);
  options.verify = true;
  options.tolerance = 0;
  if (load_case.open_loop) {
    options.arrivals = client::PoissonArrivals(100'000, 1);
    options.max_in_flight = 200;
  }
  client::LoadDriver driver(options, &*pool);
  driver.Start();
  EXPECT_TRUE(driver.WaitUntilDone(kForever));
  return driver.Finish();
}

void ExpectNothingLost(const client::LoadResult& result) {
  EXPECT_THAT(result.wrong_answers, IsEmpty());
  EXPECT_TRUE(result.CheckTotals().ok()) << result.CheckTotals();
  EXPECT_EQ(result.all_calls.total(), 1'500U);
  // All other calls are answered.
  EXPECT_EQ(result.all_calls.num(CallOutcome::kRefused), 0U);
  EXPECT_GT(result.all_calls.num(CallOutcome::kAnswered), 1'500U * 8 / 10);
  EXPECT_GT(result.all_calls.num_candidates(CallOutcome::kAnswered), 30'000U);
  // Some calls were cancelled and killed.
  EXPECT_GT(result.all_calls.num(CallOutcome::kCancelled), 0U);
  EXPECT_GT(result.all_calls.num(CallOutcome::kKilled), 0U);
}

TEST(LoadTest, ScoresOfAClosedLoop) {
  TestServer server;
  ExpectNothingLost(RunLoad(server.server().address(), {"reward", {}, false}));
}

TEST(LoadTest, TokenOutputsOfAClosedLoop) {
  TestServer server;
  LoadCase load_case = {"language", {}, false};
  load_case.outputs.set_scores(true);
  load_case.outputs.set_vectors(true);
  load_case.outputs.set_token_logprobs(true);
  load_case.outputs.set_entropy(true);
  load_case.outputs.set_values(true);
  load_case.outputs.set_scope(v1::SCOPE_PATH);
  ExpectNothingLost(RunLoad(server.server().address(), load_case));
}

TEST(LoadTest, ScoresOnStreams) {
  TestServer server;
  ExpectNothingLost(RunLoad(server.server().address(),
                            {"reward", {}, /*open_loop=*/false, client::LoadRpc::kStream}));
}

TEST(LoadTest, ABurstOfAnOpenLoopInManyParts) {
  server::ServerOptions options = FakeServerOptions();
  options.model.max_batch_tokens = 256;
  TestServer server(options);
  ExpectNothingLost(RunLoad(server.server().address(), {"reward", {}, true}));
}

}  // namespace
}  // namespace canopy::testing
