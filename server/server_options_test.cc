#include "server/server_options.h"

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace canopy::server {
namespace {

class ServerOptionsTest : public ::testing::Test {
 protected:
  // Prepends --model=/models/demo unless `arguments` begin with a --model of their own.
  static absl::StatusOr<ServerOptions> Parse(std::vector<std::string> arguments) {
    if (arguments.empty() || !absl::StartsWith(arguments[0], "--model")) {
      arguments.insert(arguments.begin(), "--model=/models/demo");
    }
    return ParseServerOptions(arguments);
  }

  static std::string Error(const std::vector<std::string>& arguments) {
    const auto options = Parse(arguments);
    EXPECT_FALSE(options.ok()) << arguments.back();
    return std::string(options.status().message());
  }
};

TEST_F(ServerOptionsTest, DefaultsAreThoseOfTheStruct) {
  const auto options = Parse({});
  ASSERT_TRUE(options.ok()) << options.status();
  const ServerOptions defaults;
  EXPECT_EQ(options->listen, "127.0.0.1:50051");
  EXPECT_EQ(options->Limits(), defaults.Limits());
  EXPECT_EQ(options->Limits().at("max_questions"), 4'096);
  EXPECT_EQ(options->Limits().at("max_paths"), 65'536);
  EXPECT_EQ(options->Limits().at("max_tokens"), 4'194'304);
  EXPECT_EQ(options->Limits().at("max_request_bytes"), 67'108'864);
  EXPECT_EQ(options->Limits().at("max_mask_bytes"), 67'108'864);
  EXPECT_EQ(options->drain_timeout, absl::Seconds(30));
  EXPECT_EQ(options->engine.default_backend, Backend::kAuto);
  EXPECT_FALSE(options->reflection);
  EXPECT_EQ(options->action, ServerOptions::Action::kServe);
}

TEST_F(ServerOptionsTest, ThePartsKeepTheirDefaults) {
  const auto options = Parse({});
  ASSERT_TRUE(options.ok()) << options.status();
  const Scheduler::Options scheduler;
  EXPECT_EQ(options->engine.scheduler.max_batch_bytes, scheduler.max_batch_bytes);
  EXPECT_EQ(options->engine.scheduler.max_queued_requests, scheduler.max_queued_requests);
  EXPECT_EQ(options->engine.scheduler.max_queued_tokens, scheduler.max_queued_tokens);
  EXPECT_EQ(options->engine.scheduler.batch_window, scheduler.batch_window);
  EXPECT_EQ(options->engine.scheduler.low_priority_patience, scheduler.low_priority_patience);
  const CallOptions calls;
  EXPECT_EQ(options->calls.max_stream_in_flight, calls.max_stream_in_flight);
  EXPECT_EQ(options->calls.max_request_memory_bytes, calls.max_request_memory_bytes);
  EXPECT_EQ(options->calls.write_timeout, calls.write_timeout);
  EXPECT_EQ(options->calls.log_requests, calls.log_requests);
  EXPECT_EQ(options->log.format, LogOptions().format);
  EXPECT_EQ(options->log.lines_per_second, LogOptions().lines_per_second);
  EXPECT_EQ(options->model.device, ModelOptions().device);
  EXPECT_EQ(options->model.dtype, ModelOptions().dtype);
  EXPECT_EQ(options->model.policy, ModelOptions().policy);
  EXPECT_EQ(options->drain_timeout, ServerOptions().drain_timeout);
}

TEST_F(ServerOptionsTest, EachLimitIsSetByItsOwnFlag) {
  const LimitMap defaults = ServerOptions().Limits();
  EXPECT_GE(defaults.size(), 18U);
  for (const auto& [name, value] : defaults) {
    constexpr int64_t kGiven = 77;
    LimitMap expected = defaults;
    expected[name] = kGiven;
    const auto options = Parse({absl::StrCat("--", name, "=", kGiven)});
    ASSERT_TRUE(options.ok()) << options.status();
    EXPECT_EQ(options->Limits(), expected) << name;
  }
}

TEST_F(ServerOptionsTest, PoolingIsTheFoldersOrForced) {
  EXPECT_FALSE(Parse({})->model.force_last_token_pooling);
  EXPECT_FALSE(Parse({"--pooling=auto"})->model.force_last_token_pooling);
  EXPECT_TRUE(Parse({"--pooling=last"})->model.force_last_token_pooling);
  EXPECT_EQ(Error({"--pooling=mean"}), "--pooling: 'mean' is not one of: auto, last");
}

TEST_F(ServerOptionsTest, ModelsAreNamedByFlagOrFolder) {
  const auto options = Parse({"--model=/models/first/", "--model=second=/models/a=b", "--model",
                              "third", "--model=synthetic:/configs/tiny.json",
                              "--model=x.y-z_1=synthetic:tiny.json", "--model=/odd=name/folder"});
  ASSERT_TRUE(options.ok()) << options.status();
  const std::pair<std::string, std::string> expected[] = {
      {"first", "/models/first/"},
      {"second", "/models/a=b"},
      {"third", "third"},
      {"tiny", "synthetic:/configs/tiny.json"},
      {"x.y-z_1", "synthetic:tiny.json"},
      {"folder", "/odd=name/folder"},
  };
  ASSERT_EQ(options->models.size(), std::size(expected));
  for (size_t i = 0; i < std::size(expected); ++i) {
    EXPECT_EQ(options->models[i].name, expected[i].first);
    EXPECT_EQ(options->models[i].source, expected[i].second);
  }
}

TEST_F(ServerOptionsTest, WrongModelsAreRefused) {
  EXPECT_TRUE(absl::StrContains(Error({"--model=a=/x", "--model=b/a"}), "another is named 'a'"));
  for (const char* model : {"--model=a=", "--model==x", "--model=a b=/x", "--model=/"}) {
    EXPECT_TRUE(absl::StrContains(Error({model}), "[NAME=]FOLDER")) << model;
  }
  EXPECT_TRUE(absl::StrContains(Error({"--model=a", "--model=b", "--config=c.json"}), "--config"));
  EXPECT_TRUE(Parse({"--model=a", "--config=c.json"}).ok());
}

TEST_F(ServerOptionsTest, RerankerTokensComeInPairsForOneModel) {
  const auto options = Parse({"--model=a", "--reranker_yes_token=9693", "--reranker_no_token=0"});
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->model.reranker_yes_token, 9693);
  EXPECT_EQ(options->model.reranker_no_token, 0);
  EXPECT_EQ(Parse({"--model=a"})->model.reranker_yes_token, -1);
  for (const std::vector<std::string>& wrong : std::vector<std::vector<std::string>>{
           {"--model=a", "--reranker_yes_token=1"},
           {"--model=a", "--reranker_no_token=1"},
           {"--model=a", "--reranker_yes_token=-2", "--reranker_no_token=-2"},
           {"--model=a", "--reranker_yes_token=1", "--reranker_no_token=2147483648"},
           {"--model=a", "--model=b", "--reranker_yes_token=1", "--reranker_no_token=2"},
       }) {
    EXPECT_TRUE(absl::StrContains(Error(wrong), "--reranker_")) << Error(wrong);
  }
}

TEST_F(ServerOptionsTest, WordsAndRangesAreChecked) {
  const std::vector<std::string> bad = {"--device=tpu",
                                        "--device=cuda:x",
                                        "--device=cuda:-1",
                                        "--dtype=float8",
                                        "--threads=-1",
                                        "--policy=fastest",
                                        "--backend=flash",
                                        "--packing=flat",
                                        "--log_format=xml",
                                        "--drain_seconds=-1",
                                        "--max_questions=0",
                                        "--max_candidates=0",
                                        "--max_paths=0",
                                        "--max_tokens=0",
                                        "--max_tokens=2147483648",
                                        "--max_mask_bytes=-1",
                                        "--max_batch_tokens=-1",
                                        "--max_request_bytes=0",
                                        "--max_request_bytes=2147483648",
                                        "--max_queued_requests=0",
                                        "--max_queued_tokens=0",
                                        "--max_concurrent_streams=0",
                                        "--max_stream_in_flight=0",
                                        "--encode_threads=-1",
                                        "--encode_threads=257",
                                        "--max_batch_bytes=0",
                                        "--batch_window_us=-1",
                                        "--batch_window_us=1000001",
                                        "--low_priority_patience_ms=-1",
                                        "--listen=",
                                        "--listen=localhost",
                                        "--listen=:1",
                                        "--listen=1.2.3.4:65536",
                                        "--listen=::1:80",
                                        "--metrics_listen=x",
                                        "--health_listen=[::1:1",
                                        "--admin_listen=127.0.0.1:1",
                                        "--admin_listen=127.0.0.1",
                                        "--weights_root=."};
  for (const std::string& argument : bad) {
    const std::string flag = argument.substr(0, argument.find('='));
    EXPECT_TRUE(absl::StartsWith(Error({argument}), absl::StrCat(flag, ": "))) << argument;
  }
  const std::vector<std::string> good = {
      "--device=cuda",       "--device=cuda:3",      "--dtype=bfloat16",  "--dtype=float16",
      "--backend=segmented", "--backend=fused",      "--packing=padded",  "--max_mask_bytes=0",
      "--drain_seconds=0",   "--listen=localhost:0", "--listen=[::1]:80", "--listen=127.8.9.1:1",
      "--policy=reference"};
  for (const std::string& argument : good) {
    EXPECT_TRUE(Parse({argument}).ok()) << Parse({argument}).status();
  }
}

TEST_F(ServerOptionsTest, PlaintextBeyondLoopbackNeedsAFlag) {
  for (const char* address : {"0.0.0.0:1", "10.0.0.1:1", "[::]:1", "example.com:1",
                              "127.example.com:1", "127.0.0.256:1"}) {
    const std::string listen = absl::StrCat("--listen=", address);
    EXPECT_TRUE(absl::StrContains(Error({listen}), "--insecure")) << address;
    EXPECT_TRUE(Parse({listen, "--insecure"}).ok()) << address;
    // Health checks reveal nothing about requests, and probes come from other hosts.
    EXPECT_TRUE(Parse({absl::StrCat("--health_listen=", address),
                       absl::StrCat("--metrics_listen=", address)})
                    .ok());
  }
}

TEST_F(ServerOptionsTest, TheAdminServiceNeedsAFolderAndBeyondLoopbackAFlag) {
  const std::string root = absl::StrCat("--weights_root=", ::testing::TempDir());
  const absl::StatusOr<ServerOptions> local = Parse({"--admin_listen=127.0.0.1:1", root});
  ASSERT_TRUE(local.ok()) << local.status();
  EXPECT_EQ(local->admin_listen, "127.0.0.1:1");
  EXPECT_EQ(local->weights_root, ::testing::TempDir());
  EXPECT_TRUE(absl::StrContains(Error({"--admin_listen=0.0.0.0:1", root, "--insecure"}),
                                "--insecure_admin"));
  EXPECT_TRUE(Parse({"--admin_listen=0.0.0.0:1", root, "--insecure_admin"}).ok());
  EXPECT_TRUE(absl::StrContains(
      Error({"--admin_listen=127.0.0.1:1", absl::StrCat(root, "/nowhere")}), "is not a folder"));
}

TEST_F(ServerOptionsTest, HelpNamesEveryFlagWithItsDefault) {
  const std::string help = ServerHelp();
  for (const char* text :
       {"--model",          "--config",        "--device",         "--dtype",
        "--listen",         "127.0.0.1:50051", "--metrics_listen", "--health_listen",
        "--admin_listen",   "--weights_root",  "--policy",         "--backend",
        "--max_mask_bytes", "67108864",        "--packing",        "--max_batch_tokens",
        "--threads",        "--reflection",    "--check_config",   "--version",
        "--flagfile",       "--drain_seconds"}) {
    EXPECT_TRUE(absl::StrContains(help, text)) << text;
  }
}

}  // namespace
}  // namespace canopy::server
