// Measures errors and times of this build on a device and prints JSON to stdout. gpu_check.py runs
// it after making the checkpoint, and measures transformers for comparison.
//
//   gpu_check --folder=CHECKPOINT [--device=cuda:0] [--dtype=bfloat16] [--backends=path,dense]
//             [--timed=CASE,..] [--logprobs=CASE,..] [--merged=CASE,..] [--runs=20]
//
// Each case and backend has an entry with the largest and the mean squared relative error against
// the stored float32 vectors. Timed cases also have the medians of `runs` runs in ms, from token
// lists on the host to vectors on the host, or to log-probs of all candidates' tokens. Cases
// without stored vectors are only timed, and only on the fused backend. The fused backend is left
// out if it does not run. In merged cases each question is a request of its own: all of them run
// together on fused, with and without merging equal prefixes, and one after the other.
#include <algorithm>
#include <cstdint>
#include <iostream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/status_macros.h"
#include "base/stopwatch.h"
#include "core/runtime/torch_runner.h"
#include "core/tree/tree_plan.h"
#include "tests/conformance/reference_cases.h"

ABSL_FLAG(std::string, folder, "", "checkpoint with an oracle folder below it");
ABSL_FLAG(std::string, device, "auto", "auto, cpu, cuda or cuda:N");
ABSL_FLAG(std::string, dtype, "auto", "auto, float32 or bfloat16");
ABSL_FLAG(std::vector<std::string>, backends,
          std::vector<std::string>({"path", "dense", "segmented", "fused", "measured"}),
          "of path, dense, segmented and fused, and measured for what that policy takes");
ABSL_FLAG(std::vector<std::string>, timed, {}, "cases that are also timed");
ABSL_FLAG(std::vector<std::string>, logprobs, {}, "timed cases whose log-probs are timed too");
ABSL_FLAG(std::vector<std::string>, merged, {}, "cases whose questions are requests to merge");
ABSL_FLAG(int32_t, runs, 20, "timed runs of a case and backend, after three to warm up");
ABSL_FLAG(int32_t, threads, 0, "LibTorch's, on a CPU; 0 = one a core");
ABSL_FLAG(int64_t, max_batch_tokens, 65'536, "token budget of one forward");
ABSL_FLAG(bool, share_questions, true, "questions that begin alike share tokens on fused");
ABSL_FLAG(int32_t, pause_ms, 0, "idle time before each timed run, so that the card may cool");

namespace canopy {
namespace {

constexpr int kWarmUpRuns = 3;

// Returns kAuto for the name of the measured policy.
absl::StatusOr<Backend> BackendFromName(const std::string& name) {
  if (name == "measured") {
    return Backend::kAuto;
  }
  for (const Backend backend :
       {Backend::kPath, Backend::kDense, Backend::kSegmented, Backend::kFused}) {
    if (name == BackendName(backend)) {
      return backend;
    }
  }
  return absl::InvalidArgumentError(absl::StrCat("backend '", name, "' is unknown"));
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

double Mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

absl::StatusOr<RequestPlan> Plan(const ModelRunner& runner,
                                 const std::shared_ptr<const PathBatch>& batch, Backend backend,
                                 bool share_questions) {
  RouteOptions options;
  options.backend = backend;
  options.hidden_size = static_cast<int32_t>(runner.info()->hidden_size);
  options.fused_supported = runner.info()->fused_supported;
  options.policy = Policy::kMeasured;
  options.costs = runner.info()->route_costs;
  options.share_questions = share_questions;
  // The named backend must run, whatever its mask costs.
  options.max_mask_bytes = int64_t{1} << 40;
  return RequestPlan::Create(batch, options, absl::GetFlag(FLAGS_max_batch_tokens));
}

// The medians of `runs` runs, and the fastest run.
struct Times {
  double plan_ms = 0;  // for trie, layout and index arrays
  double total_ms = 0;
  double fastest_ms = 0;
  int64_t computed_tokens = 0;
};

absl::StatusOr<Times> Time(ModelRunner& runner, const std::shared_ptr<const PathBatch>& batch,
                           Backend backend, bool share_questions, const OutputSelection& outputs) {
  std::vector<double> plan_ms;
  std::vector<double> total_ms;
  Times times;
  for (int run = 0; run < kWarmUpRuns + absl::GetFlag(FLAGS_runs); ++run) {
    absl::SleepFor(absl::Milliseconds(absl::GetFlag(FLAGS_pause_ms)));
    times.computed_tokens = 0;
    const Stopwatch total;
    double planning = 0;
    Stopwatch planned;
    CANOPY_ASSIGN_OR_RETURN(const RequestPlan plan, Plan(runner, batch, backend, share_questions));
    planning += planned.ElapsedMs();
    for (int32_t part = 0; part < plan.num_parts(); ++part) {
      planned = Stopwatch();
      const TreePlan tree = plan.BuildPart(part);
      planning += planned.ElapsedMs();
      times.computed_tokens += tree.computed_tokens();
      CANOPY_RETURN_IF_ERROR(runner.Run(tree, outputs).status());
    }
    if (run >= kWarmUpRuns) {
      plan_ms.push_back(planning);
      total_ms.push_back(total.ElapsedMs());
    }
  }
  times.plan_ms = Median(plan_ms);
  times.total_ms = Median(total_ms);
  times.fastest_ms = *std::min_element(total_ms.begin(), total_ms.end());
  return times;
}

bool IsListed(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

absl::Status AddTimes(ModelRunner& runner, const std::string& name, const ReferenceCase& item,
                      Backend backend, nlohmann::json& entry) {
  const bool share = absl::GetFlag(FLAGS_share_questions);
  if (!IsListed(absl::GetFlag(FLAGS_timed), name)) {
    return absl::OkStatus();
  }
  OutputSelection vectors;
  vectors.vectors = true;
  CANOPY_ASSIGN_OR_RETURN(const Times times, Time(runner, item.batch, backend, share, vectors));
  entry["computed_tokens"] = times.computed_tokens;
  entry["plan_ms"] = times.plan_ms;
  entry["total_ms"] = times.total_ms;
  entry["fastest_ms"] = times.fastest_ms;
  if (IsListed(absl::GetFlag(FLAGS_logprobs), name)) {
    OutputSelection logprobs;
    logprobs.token_logprobs = true;
    CANOPY_ASSIGN_OR_RETURN(const Times with_head,
                            Time(runner, item.batch, backend, share, logprobs));
    entry["logprobs_ms"] = with_head.total_ms;
  }
  return absl::OkStatus();
}

absl::StatusOr<nlohmann::json> Check(ModelRunner& runner, const ReferenceCase& item,
                                     Backend backend) {
  CANOPY_ASSIGN_OR_RETURN(const RequestPlan plan,
                          Plan(runner, item.batch, backend, absl::GetFlag(FLAGS_share_questions)));
  nlohmann::json entry;
  entry["backend"] = std::string(BackendName(plan.route().backend));
  entry["layout"] = std::string(LayoutName(plan.route().layout));
  entry["parts"] = plan.num_parts();
  entry["path_tokens"] = plan.counts().path_tokens;
  entry["unique_tokens"] = plan.counts().unique_tokens;
  if (item.exact.vectors.rows == 0) {
    return entry;
  }
  CANOPY_ASSIGN_OR_RETURN(const RunAnswer answer, RunPlan(runner, plan));
  const std::vector<double> errors = SquaredRelativeErrors(answer.vectors, item.exact.vectors);
  entry["candidates"] = errors.size();
  entry["finite"] = answer.finite;
  entry["largest_squared_error"] = *std::max_element(errors.begin(), errors.end());
  entry["mean_squared_error"] = Mean(errors);
  return entry;
}

// Returns each question of `batch` as a batch of its own.
std::vector<std::shared_ptr<const PathBatch>> Questions(const PathBatch& batch) {
  std::vector<std::shared_ptr<const PathBatch>> questions;
  for (int32_t question = 0; question < batch.num_questions(); ++question) {
    std::vector<std::vector<int32_t>> suffixes;
    for (int32_t path = batch.question_offsets[question];
         path < batch.question_offsets[question + 1]; ++path) {
      const auto tokens = batch.Tokens(batch.suffixes[path]);
      suffixes.emplace_back(tokens.begin(), tokens.end());
    }
    auto alone = std::make_shared<PathBatch>();
    alone->question_offsets = {0};
    alone->AddQuestion(batch.Tokens(batch.prefixes[question]), suffixes);
    questions.push_back(std::move(alone));
  }
  return questions;
}

absl::StatusOr<nlohmann::json> CheckMerging(ModelRunner& runner, const ReferenceCase& item) {
  OutputSelection vectors;
  vectors.vectors = true;
  nlohmann::json entry;
  std::map<bool, Matrix> answers;
  for (const bool merged : {true, false}) {
    CANOPY_ASSIGN_OR_RETURN(const RequestPlan plan,
                            Plan(runner, item.batch, Backend::kFused, merged));
    CANOPY_ASSIGN_OR_RETURN(RunAnswer answer, RunPlan(runner, plan));
    CANOPY_ASSIGN_OR_RETURN(const Times times,
                            Time(runner, item.batch, Backend::kFused, merged, vectors));
    const std::string prefix = merged ? "merged_" : "unmerged_";
    entry[prefix + "ms"] = times.total_ms;
    entry[prefix + "computed_tokens"] = times.computed_tokens;
    entry[prefix + "mean_squared_error"] =
        Mean(SquaredRelativeErrors(answer.vectors, item.exact.vectors));
    answers[merged] = std::move(answer.vectors);
  }
  entry["mean_squared_difference"] = Mean(SquaredRelativeErrors(answers[true], answers[false]));
  double alone_ms = 0;
  const auto questions = Questions(*item.batch);
  for (const auto& question : questions) {
    CANOPY_ASSIGN_OR_RETURN(const Times times,
                            Time(runner, question, Backend::kFused, true, vectors));
    alone_ms += times.total_ms;
  }
  entry["requests"] = questions.size();
  entry["alone_ms"] = alone_ms;
  return entry;
}

absl::StatusOr<nlohmann::json> CheckAll() {
  const std::string folder = absl::GetFlag(FLAGS_folder);
  TorchRunnerOptions options;
  options.source.name = "model";
  options.source.source = folder;
  options.model.device = absl::GetFlag(FLAGS_device);
  options.model.dtype = absl::GetFlag(FLAGS_dtype);
  options.model.threads = absl::GetFlag(FLAGS_threads);
  options.model.max_batch_tokens = absl::GetFlag(FLAGS_max_batch_tokens);
  options.prepare_routes = true;
  options.model.policy = Policy::kMeasured;
  CANOPY_ASSIGN_OR_RETURN(const std::unique_ptr<ModelRunner> runner, LoadTorchRunner(options));
  CANOPY_ASSIGN_OR_RETURN(const auto cases, ReadReferenceCases(folder));
  nlohmann::json results;
  results["device"] = runner->info()->device;
  results["dtype"] = runner->info()->dtype;
  results["graphs"] = runner->graphs().count;
  results["graph_bytes"] = runner->graphs().bytes;
  results["entries"] = nlohmann::json::array();
  for (const auto& [name, item] : cases) {
    if (IsListed(absl::GetFlag(FLAGS_merged), name) && runner->info()->fused_supported) {
      CANOPY_ASSIGN_OR_RETURN(results["merged"][name], CheckMerging(*runner, item));
    }
    for (const std::string& backend_name : absl::GetFlag(FLAGS_backends)) {
      CANOPY_ASSIGN_OR_RETURN(const Backend backend, BackendFromName(backend_name));
      const bool is_fused = backend == Backend::kFused;
      if (is_fused ? !runner->info()->fused_supported : item.exact.vectors.rows == 0) {
        continue;
      }
      CANOPY_ASSIGN_OR_RETURN(nlohmann::json entry, Check(*runner, item, backend));
      entry["case"] = name;
      entry["requested"] = backend_name;
      CANOPY_RETURN_IF_ERROR(AddTimes(*runner, name, item, backend, entry));
      results["entries"].push_back(std::move(entry));
    }
  }
  return results;
}

}  // namespace
}  // namespace canopy

int main(int argc, char** argv) {
  absl::ParseCommandLine(argc, argv);
  const absl::StatusOr<nlohmann::json> results = canopy::CheckAll();
  if (!results.ok()) {
    std::cerr << results.status() << "\n";
    return 1;
  }
  std::cout << results->dump() << "\n";
  return 0;
}
