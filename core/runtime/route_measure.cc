#include "core/runtime/route_measure.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/logging.h"
#include "base/status_macros.h"
#include "base/stopwatch.h"
#include "core/tree/path_batch.h"
#include "core/tree/tree_plan.h"

namespace canopy {
namespace {

// Each of `questions` has `candidates` paths of prefix + suffix tokens.
struct Shape {
  int32_t questions;
  int32_t candidates;
  int32_t prefix;
  int32_t suffix;
};

// The shapes in order of their work. They contain trees and single paths, short and long paths, and
// one or several questions, so that the costs of tokens, pairs and forwards can be separated. The
// last shapes are for devices on which they take milliseconds.
constexpr Shape kShapes[] = {
    {1, 2, 24, 8},   {1, 4, 100, 16},  {1, 16, 0, 32},    {4, 4, 200, 24},  {1, 24, 480, 20},
    {16, 8, 40, 40}, {8, 16, 240, 32}, {1, 64, 1000, 40}, {4, 64, 512, 64}, {16, 64, 512, 64},
};
// Warm-up of a backend stops after this time. If runs take so long, the additional cost of a first
// run does not matter any more.
constexpr double kMaxWarmUpMs = 500;
constexpr int kMaxTimedRuns = 3;
// A shape is repeated only if one run takes at most this fraction of the budget.
constexpr double kRepeatedShare = 1.0 / 8;

// Returns the tokens that `backend` computes for a shape.
int64_t TokensOf(Backend backend, const Shape& shape) {
  const int64_t suffixes = int64_t{shape.questions} * shape.candidates * shape.suffix;
  const int64_t prefixes = int64_t{shape.questions} * shape.prefix;
  return suffixes + (backend == Backend::kPath ? shape.candidates * prefixes : prefixes);
}

std::shared_ptr<const PathBatch> MakeBatch(const Shape& shape, int64_t vocab_size) {
  const auto token = [vocab_size](int64_t number) {
    return static_cast<int32_t>(number % vocab_size);
  };
  auto batch = std::make_shared<PathBatch>();
  for (int32_t question = 0; question < shape.questions; ++question) {
    std::vector<int32_t> prefix;
    prefix.reserve(static_cast<size_t>(shape.prefix));
    for (int32_t i = 0; i < shape.prefix; ++i) {
      prefix.push_back(token(question + 7 * i));
    }
    std::vector<std::vector<int32_t>> suffixes;
    for (int32_t candidate = 0; candidate < shape.candidates; ++candidate) {
      std::vector<int32_t>& suffix = suffixes.emplace_back();
      for (int32_t i = 0; i < shape.suffix; ++i) {
        suffix.push_back(token(question + candidate + 11 * i));
      }
    }
    batch->AddQuestion(prefix, suffixes);
  }
  return batch;
}

// One backend of one model.
class BackendTimer {
 public:
  BackendTimer(ModelRunner& runner, Backend backend, const RouteMeasureOptions& options)
      : runner_(runner), backend_(backend), options_(options) {}

  // Runs `shape` once, for vectors. Returns nullopt if the rules choose another backend.
  absl::StatusOr<std::optional<RouteLoad>> Run(const Shape& shape) {
    OutputSelection outputs;
    outputs.vectors = true;
    CANOPY_ASSIGN_OR_RETURN(const std::optional<RequestPlan> plan, Plan(shape));
    if (!plan.has_value()) {
      return std::nullopt;
    }
    for (int32_t part = 0; part < plan->num_parts(); ++part) {
      CANOPY_RETURN_IF_ERROR(runner_.Run(plan->BuildPart(part), outputs).status());
    }
    return plan->load();
  }

  // Plans the smallest request.
  absl::StatusOr<std::optional<RequestPlan>> PlanSmallest() {
    const std::vector<Shape> shapes = Shapes();
    if (shapes.empty()) {
      return std::nullopt;
    }
    return Plan(shapes.front());
  }

  absl::Status WarmUp(int num_sizes) {
    int num_warm = 0;
    const double start = Now();
    for (const Shape& shape : Shapes()) {
      if (num_warm < num_sizes && Now() - start < kMaxWarmUpMs) {
        CANOPY_ASSIGN_OR_RETURN(const std::optional<RouteLoad> load, Run(shape));
        num_warm += load.has_value() ? 1 : 0;
      }
    }
    return absl::OkStatus();
  }

  absl::StatusOr<BackendCost> Measure() {
    std::vector<CostSample> samples;
    const double start = Now();
    for (const Shape& shape : Shapes()) {
      const double left = options_.budget_ms - (Now() - start);
      const auto num_samples = static_cast<int>(samples.size());
      if (num_samples >= options_.max_shapes ||
          (num_samples >= options_.min_shapes && ExpectedMs(samples, shape) > left)) {
        break;
      }
      const absl::StatusOr<std::optional<CostSample>> sample = TimeShape(shape);
      // A size that does not fit the device ends the growth; the smaller sizes count.
      if (absl::IsResourceExhausted(sample.status()) && !samples.empty()) {
        break;
      }
      CANOPY_RETURN_IF_ERROR(sample.status());
      if (sample->has_value()) {
        samples.push_back(**sample);
      }
    }
    return FitCost(samples);
  }

 private:
  // Returns nullopt if the rules choose another backend.
  absl::StatusOr<std::optional<RequestPlan>> Plan(const Shape& shape) const {
    RouteOptions route;
    route.backend = backend_;
    route.max_mask_bytes = int64_t{1} << 40;
    route.hidden_size = static_cast<int32_t>(runner_.info()->hidden_size);
    route.fused_supported = true;
    CANOPY_ASSIGN_OR_RETURN(RequestPlan plan,
                            RequestPlan::Create(MakeBatch(shape, runner_.info()->vocab_size), route,
                                                options_.max_batch_tokens));
    if (plan.route().backend != backend_) {
      return std::nullopt;
    }
    return plan;
  }

  double Now() const { return options_.now_ms ? options_.now_ms() : clock_.ElapsedMs(); }

  // Returns the shapes whose paths the model allows.
  std::vector<Shape> Shapes() const {
    const int64_t longest = std::min(runner_.info()->max_path_tokens, options_.max_batch_tokens);
    std::vector<Shape> shapes;
    std::copy_if(std::begin(kShapes), std::end(kShapes), std::back_inserter(shapes),
                 [longest](const Shape& shape) { return shape.prefix + shape.suffix <= longest; });
    return shapes;
  }

  // Returns the time of a warm-up run and a timed run, if only the tokens mattered.
  double ExpectedMs(const std::vector<CostSample>& samples, const Shape& shape) const {
    const CostSample& last = samples.back();
    return 2 * last.ms * static_cast<double>(TokensOf(backend_, shape)) /
           static_cast<double>(last.load.tokens);
  }

  absl::StatusOr<std::optional<CostSample>> TimeShape(const Shape& shape) {
    std::optional<CostSample> sample;
    int runs_left = 1 + kMaxTimedRuns;
    for (int run = 0; runs_left > 0; ++run, --runs_left) {
      const double begin = Now();
      CANOPY_ASSIGN_OR_RETURN(const std::optional<RouteLoad> load, Run(shape));
      const double ms = Now() - begin;
      if (!load.has_value()) {
        return sample;
      }
      if (run == 0) {
        if (ms > options_.budget_ms * kRepeatedShare) {
          runs_left = 2;
        }
      } else if (!sample.has_value() || ms < sample->ms) {
        // The fastest run had the fewest disturbances. The minimum accounts for the resolution of
        // the clock.
        sample = CostSample{*load, std::max(ms, 1e-3)};
      }
    }
    return sample;
  }

  ModelRunner& runner_;
  const Backend backend_;
  const RouteMeasureOptions& options_;
  const Stopwatch clock_;
};

// Returns one selection of outputs for each head that the model has.
std::vector<OutputSelection> HeadOutputs(const ModelInfo& model) {
  std::vector<OutputSelection> heads;
  if (model.num_labels > 0) {
    OutputSelection& outputs = heads.emplace_back();
    (model.score_head == ScoreHead::kDecision ? outputs.endpoints : outputs.scores) = true;
  }
  for (const OutputHead head : {OutputHead::kLanguageModel, OutputHead::kValue}) {
    if (HasHead(model, head)) {
      OutputSelection& outputs = heads.emplace_back();
      for (const OutputSpec& spec : kOutputs) {
        if (spec.head == head) {
          Ask(spec.output, 1, &outputs);
        }
      }
    }
  }
  return heads;
}

// Returns OK if the other backends may continue without `backend`.
absl::Status LeaveOut(Backend backend, const absl::Status& status) {
  if (backend == Backend::kPath || absl::IsUnavailable(status)) {
    return status;
  }
  LogWarning("backend_failed",
             {{"backend", BackendName(backend)}, {"error", std::string(status.message())}});
  return absl::OkStatus();
}

}  // namespace

MeasureWork MinMeasureWork(Backend backend) {
  MeasureWork work;
  for (int i = 0; i < kMinShapes; ++i) {
    constexpr int64_t kRuns = 1 + kMaxTimedRuns;
    const Shape& shape = kShapes[i];
    const int64_t tokens = TokensOf(backend, shape);
    // On the path backend a token attends to at most its path, elsewhere to at most its forward.
    const int64_t reach = backend == Backend::kPath ? shape.prefix + shape.suffix : tokens;
    work.forwards += kRuns;
    work.tokens += kRuns * tokens;
    work.pairs += kRuns * tokens * reach;
  }
  return work;
}

absl::StatusOr<RouteCosts> MeasureRouteCosts(ModelRunner& runner,
                                             const RouteMeasureOptions& options) {
  RouteCosts costs;
  for (const Backend backend : RunnableBackends(runner.info()->backend_support())) {
    const absl::StatusOr<BackendCost> cost = BackendTimer(runner, backend, options).Measure();
    if (!cost.ok()) {
      CANOPY_RETURN_IF_ERROR(LeaveOut(backend, cost.status()));
      continue;
    }
    costs.backends[backend] = *cost;
    LogInfo("backend_measured", {{"backend", BackendName(backend)},
                                 {"forward_ms", cost->forward_ms},
                                 {"group_ms", cost->group_ms},
                                 {"token_us", cost->token_ms * 1e3},
                                 {"pair_ns", cost->pair_ms * 1e6}});
  }
  return costs;
}

absl::Status WarmUpBackends(ModelRunner& runner, int64_t max_batch_tokens, int num_sizes) {
  RouteMeasureOptions options;
  options.max_batch_tokens = max_batch_tokens;
  for (const Backend backend : RunnableBackends(runner.info()->backend_support())) {
    if (const absl::Status status = BackendTimer(runner, backend, options).WarmUp(num_sizes);
        !status.ok()) {
      CANOPY_RETURN_IF_ERROR(LeaveOut(backend, status));
    }
  }
  return absl::OkStatus();
}

absl::Status WarmUpHeads(ModelRunner& runner, int64_t max_batch_tokens) {
  RouteMeasureOptions options;
  options.max_batch_tokens = max_batch_tokens;
  CANOPY_ASSIGN_OR_RETURN(const std::optional<RequestPlan> plan,
                          BackendTimer(runner, Backend::kPath, options).PlanSmallest());
  if (!plan.has_value()) {
    return absl::OkStatus();
  }
  const ModelInfo& model = *runner.info();
  for (const OutputSelection& outputs : HeadOutputs(model)) {
    for (int32_t part = 0; part < plan->num_parts(); ++part) {
      CANOPY_ASSIGN_OR_RETURN(const PartOutput output, runner.Run(plan->BuildPart(part), outputs));
      if (outputs.endpoints) {
        const int32_t offsets[] = {0, static_cast<int32_t>(output.finite.size())};
        CANOPY_RETURN_IF_ERROR(runner.Decide({output.endpoints, output.finite, offsets}).status());
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace canopy
