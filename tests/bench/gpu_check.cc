// Errors and times of this build on a device, as JSON on stdout; run by gpu_check.py, which makes
// the checkpoint and measures transformers beside it.
//
//   gpu_check --folder=CHECKPOINT [--device=cuda:0] [--dtype=bfloat16] [--backends=path,dense]
//             [--timed=CASE,..] [--runs=20]
//
// An entry for each case and backend: the largest and the mean squared relative error against the
// stored float32 vectors, and for timed cases the medians of `runs` runs in ms, from token lists on
// the host to vectors on the host.
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
#include "core/base/status_macros.h"
#include "core/base/stopwatch.h"
#include "core/engine/torch_runner.h"
#include "core/tree/tree_plan.h"
#include "tests/conformance/reference_cases.h"

ABSL_FLAG(std::string, folder, "", "checkpoint with an oracle folder below it");
ABSL_FLAG(std::string, device, "auto", "auto, cpu, cuda or cuda:N");
ABSL_FLAG(std::string, dtype, "auto", "auto, float32 or bfloat16");
ABSL_FLAG(std::vector<std::string>, backends,
          std::vector<std::string>({"path", "dense", "segmented"}), "of path, dense and segmented");
ABSL_FLAG(std::vector<std::string>, timed, {}, "cases that are also timed");
ABSL_FLAG(int32_t, runs, 20, "timed runs of a case and backend, after three to warm up");
ABSL_FLAG(int32_t, threads, 0, "LibTorch's, on a CPU; 0 = one a core");
ABSL_FLAG(int64_t, max_batch_tokens, 65'536, "token budget of one forward");

namespace canopy {
namespace {

constexpr int kWarmUpRuns = 3;

absl::StatusOr<Backend> BackendFromName(const std::string& name) {
  for (const Backend backend : {Backend::kPath, Backend::kDense, Backend::kSegmented}) {
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

absl::StatusOr<RequestPlan> Plan(const ModelRunner& runner, const ReferenceCase& item,
                                 Backend backend) {
  RouteOptions options;
  options.backend = backend;
  options.hidden_size = static_cast<int32_t>(runner.info()->hidden_size);
  // Errors and times of the backend that was named, whatever its mask costs.
  options.max_mask_bytes = int64_t{1} << 40;
  return RequestPlan::Create(item.batch, options, absl::GetFlag(FLAGS_max_batch_tokens));
}

// Adds plan_ms (trie, layout and index arrays) and total_ms to `entry`.
absl::Status Time(ModelRunner& runner, const ReferenceCase& item, Backend backend,
                  nlohmann::json& entry) {
  OutputSelection outputs;
  outputs.vectors = true;
  std::vector<double> plan_ms;
  std::vector<double> total_ms;
  for (int run = 0; run < kWarmUpRuns + absl::GetFlag(FLAGS_runs); ++run) {
    const Stopwatch total;
    double planning = 0;
    Stopwatch planned;
    CANOPY_ASSIGN_OR_RETURN(const RequestPlan plan, Plan(runner, item, backend));
    planning += planned.ElapsedMs();
    for (int32_t part = 0; part < plan.num_parts(); ++part) {
      planned = Stopwatch();
      const TreePlan tree = plan.BuildPart(part);
      planning += planned.ElapsedMs();
      CANOPY_RETURN_IF_ERROR(runner.Run(tree, outputs).status());
    }
    if (run >= kWarmUpRuns) {
      plan_ms.push_back(planning);
      total_ms.push_back(total.ElapsedMs());
    }
  }
  entry["plan_ms"] = Median(plan_ms);
  entry["total_ms"] = Median(total_ms);
  entry["fastest_ms"] = *std::min_element(total_ms.begin(), total_ms.end());
  return absl::OkStatus();
}

absl::StatusOr<nlohmann::json> Check(ModelRunner& runner, const ReferenceCase& item,
                                     Backend backend) {
  CANOPY_ASSIGN_OR_RETURN(const RequestPlan plan, Plan(runner, item, backend));
  CANOPY_ASSIGN_OR_RETURN(const RunAnswer answer, RunPlan(runner, plan));
  const std::vector<double> errors = SquaredRelativeErrors(answer.vectors, item.vectors);
  nlohmann::json entry;
  entry["backend"] = std::string(BackendName(plan.route().backend));
  entry["layout"] = std::string(LayoutName(plan.route().layout));
  entry["parts"] = plan.num_parts();
  entry["path_tokens"] = plan.counts().path_tokens;
  entry["unique_tokens"] = plan.counts().unique_tokens;
  entry["candidates"] = errors.size();
  entry["finite"] = answer.finite;
  entry["largest_squared_error"] = *std::max_element(errors.begin(), errors.end());
  entry["mean_squared_error"] =
      std::accumulate(errors.begin(), errors.end(), 0.0) / static_cast<double>(errors.size());
  return entry;
}

absl::StatusOr<nlohmann::json> CheckAll() {
  const std::string folder = absl::GetFlag(FLAGS_folder);
  TorchRunnerOptions options;
  options.name = "model";
  options.source = folder;
  options.device = absl::GetFlag(FLAGS_device);
  options.dtype = absl::GetFlag(FLAGS_dtype);
  options.threads = absl::GetFlag(FLAGS_threads);
  CANOPY_ASSIGN_OR_RETURN(const std::unique_ptr<ModelRunner> runner, LoadTorchRunner(options));
  CANOPY_ASSIGN_OR_RETURN(const auto cases, ReadReferenceCases(folder));
  const std::vector<std::string> timed = absl::GetFlag(FLAGS_timed);
  nlohmann::json results;
  results["device"] = runner->info()->device;
  results["dtype"] = runner->info()->dtype;
  results["entries"] = nlohmann::json::array();
  for (const auto& [name, item] : cases) {
    for (const std::string& backend_name : absl::GetFlag(FLAGS_backends)) {
      CANOPY_ASSIGN_OR_RETURN(const Backend backend, BackendFromName(backend_name));
      CANOPY_ASSIGN_OR_RETURN(nlohmann::json entry, Check(*runner, item, backend));
      entry["case"] = name;
      entry["requested"] = backend_name;
      if (std::find(timed.begin(), timed.end(), name) != timed.end()) {
        CANOPY_RETURN_IF_ERROR(Time(*runner, item, backend, entry));
      }
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
