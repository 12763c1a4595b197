#include "core/runtime/torch_runner.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ATen/core/Tensor.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/logging.h"
#include "base/status_macros.h"
#include "c10/core/InferenceMode.h"
#include "core/checkpoint/model_config.h"
#include "core/checkpoint/weight_schema.h"
#include "core/engine/batch_tokens.h"
#include "core/engine/served_model.h"
#include "core/model/tree_encoder.h"
#include "core/model/weights.h"
#include "core/ops/device.h"
#include "core/ops/device_memory.h"
#include "core/ops/side_stream.h"
#include "core/ops/torch_guard.h"
#include "core/runtime/model_routes.h"
#include "core/runtime/open_model.h"
#include "core/runtime/part_heads.h"
#include "core/runtime/route_measure.h"
#include "core/scoring/output_rows.h"
#include "core/scoring/reranker.h"
#include "core/scoring/reward.h"
#include "core/scoring/set_head.h"
#include "core/scoring/token_logprobs.h"

namespace canopy {
namespace {

class TorchRunner : public ModelRunner {
 public:
  TorchRunner(std::shared_ptr<const ModelInfo> info, std::unique_ptr<TreeEncoder> encoder,
              ModelHeads heads)
      : info_(std::move(info)), encoder_(std::move(encoder)), heads_(std::move(heads)) {}

  std::shared_ptr<const ModelInfo> info() const override { return info_; }

  GraphUse graphs() const override { return {encoder_->num_graphs(), encoder_->graph_bytes()}; }

  DeviceMemory device_memory() const override {
    const DeviceBytes bytes = ReadDeviceBytes(encoder_->options().device());
    return {bytes.allocated, bytes.reserved, bytes.total};
  }

  // Must be called before the runner is handed out.
  void SetRoutes(const ModelRoutes& routes) {
    ModelInfo info = *info_;
    info.default_policy = routes.default_policy;
    info.policy_reason = routes.policy_reason;
    info.route_costs = routes.costs;
    info_ = std::make_shared<const ModelInfo>(std::move(info));
  }

  absl::StatusOr<bool> RecordNextGraph() { return encoder_->RecordNextGraph(); }

  absl::StatusOr<PartOutput> Run(const TreePlan& plan, const OutputSelection& outputs) override {
    CANOPY_RETURN_IF_ERROR(CheckHeads(outputs, *info_));
    const OutputRows rows =
        PlanOutputRows(plan, {outputs.distributions(), outputs.values, outputs.scope});
    CANOPY_ASSIGN_OR_RETURN(const at::Tensor hidden, encoder_->Encode(plan, rows.slots));
    return GuardTorch("scoring", [&]() -> absl::StatusOr<PartOutput> {
      const c10::InferenceMode inference;
      return ComputeOutputs(heads_, {hidden, rows, static_cast<int64_t>(plan.endpoints.size())},
                            outputs);
    });
  }

  absl::StatusOr<std::vector<float>> Decide(const DecisionInput& input) override {
    if (!heads_.decision.has_value()) {
      return absl::InternalError(absl::StrCat(info_->name, " has no decision head"));
    }
    return heads_.decision->ScoreSets({input.endpoints, input.finite, input.question_offsets});
  }

 private:
  std::shared_ptr<const ModelInfo> info_;
  const std::unique_ptr<TreeEncoder> encoder_;
  const ModelHeads heads_;
};

using DeviceWork = std::function<absl::Status()>;

// Runs `work` directly, or between the forwards of the model that serves.
absl::Status RunOnDevice(const TorchRunnerOptions& options, absl::string_view what,
                         const DeviceWork& work) {
  CANOPY_RETURN_IF_ERROR(CheckWanted(options));
  const std::optional<Replacement>& replacement = options.replacement;
  return replacement.has_value() && replacement->run_on_device
             ? replacement->run_on_device(what, work)
             : work();
}

// A runner whose forwards run between those of the model that serves.
class InterleavedRunner final : public ModelRunner {
 public:
  InterleavedRunner(const TorchRunnerOptions& options, ModelRunner& runner)
      : options_(options), runner_(runner) {}

  std::shared_ptr<const ModelInfo> info() const override { return runner_.info(); }

  absl::StatusOr<PartOutput> Run(const TreePlan& plan, const OutputSelection& outputs) override {
    absl::StatusOr<PartOutput> output;
    // Selections without vectors warm up the heads.
    const absl::string_view what = outputs.vectors ? BackendName(plan.backend) : "heads";
    CANOPY_RETURN_IF_ERROR(RunOnDevice(options_, what, [&] {
      output = runner_.Run(plan, outputs);
      return output.status();
    }));
    return output;
  }

  absl::StatusOr<std::vector<float>> Decide(const DecisionInput& input) override {
    absl::StatusOr<std::vector<float>> scores;
    CANOPY_RETURN_IF_ERROR(RunOnDevice(options_, "heads", [&] {
      scores = runner_.Decide(input);
      return scores.status();
    }));
    return scores;
  }

 private:
  const TorchRunnerOptions& options_;
  ModelRunner& runner_;
};

// Returns the average number of weights that one token uses in one layer.
int64_t LayerWeights(const ModelConfig& config) {
  const int64_t attention = 2 * config.hidden_size * (config.query_size() + config.kv_size());
  const auto sparse_layers =
      std::count(config.experts.sparse_layers.begin(), config.experts.sparse_layers.end(), true);
  const int64_t dense_columns = (config.num_layers - sparse_layers) * config.intermediate_size;
  const int64_t sparse_columns =
      sparse_layers * config.experts.experts_per_token * config.experts.intermediate_size;
  return attention + 3 * config.hidden_size * (dense_columns + sparse_columns) / config.num_layers;
}

int64_t MaxBatchTokens(const TorchRunnerOptions& options, absl::string_view device) {
  return options.model.max_batch_tokens > 0 ? options.model.max_batch_tokens
                                            : DefaultBatchTokens(device);
}

ModelInfo DescribeModel(const TorchRunnerOptions& options, const HostModel& model,
                        const at::TensorOptions& placement) {
  const ModelConfig& config = model.config;
  ModelInfo info;
  info.name = options.source.name;
  if (options.replacement.has_value()) {
    info.version = options.replacement->served->version + 1;
  }
  info.fingerprint = model.fingerprint;
  info.architecture = config.architecture;
  info.parameters = model.weights.CountParameters();
  info.hidden_size = config.hidden_size;
  info.vocab_size = config.vocab_size;
  info.num_layers = config.num_layers;
  info.layer_weights = LayerWeights(config);
  info.attention_size = config.query_size();
  info.device = placement.device().str();
  info.max_path_tokens = std::min(config.max_positions, MaxBatchTokens(options, info.device));
  // A folder of a language model may also contain a reward head.
  const TensorView* score = model.weights.Find("score.weight");
  info.num_labels = score == nullptr ? 0 : score->shape[0];
  info.has_value_head = info.num_labels == 1;
  info.has_lm_head = HasLanguageModelHead(model);
  if (model.weights.lacks_lm_head) {
    info.lm_head_reason = "its folder holds no lm_head.weight, and tie_word_embeddings is false";
  }
  info.pooling = model.pooling.mode;
  info.folder_normalizes = model.pooling.normalizes;
  info.pad_token = config.pad_token;
  if (model.weights.has_decision_head) {
    info.num_labels = 1;
    info.score_head = ScoreHead::kDecision;
  } else if (model.reranker.has_value()) {
    info.num_labels = 1;
    info.score_head = ScoreHead::kReranker;
  }
  const DecisionTemperatures& temperatures = model.temperatures;
  info.temperatures = {temperatures.boolean, temperatures.choice, temperatures.score};
  info.dtype = std::string(DtypeName(c10::typeMetaToScalarType(placement.dtype())));
  info.vocabulary_hash = model.vocabulary_hash;
  if (config.sliding_window > 0) {
    info.tree_supported = false;
    info.support_reason = absl::StrCat(
        std::count(config.sliding_layers.begin(), config.sliding_layers.end(), true), " of ",
        config.num_layers, " layers have a sliding window of ", config.sliding_window, " tokens");
  }
  return info;
}

absl::StatusOr<RewardHead> LoadReward(const TensorView& weight, at::Device device) {
  return GuardTorch("loading the reward head", [&]() -> absl::StatusOr<RewardHead> {
    const c10::InferenceMode inference;
    return RewardHead(UploadWeight(weight, at::TensorOptions().dtype(at::kFloat).device(device)));
  });
}

absl::StatusOr<YesNoHead> LoadReranker(const HostModel& model, at::Device device) {
  const TensorView* head = model.weights.Find("lm_head.weight");
  return YesNoHead::Load(head != nullptr ? *head : *model.weights.Find("embed_tokens.weight"),
                         *model.reranker, device);
}

absl::StatusOr<LanguageModelHead> LoadLanguageModelHead(const HostModel& model,
                                                        const TreeEncoder& encoder) {
  const TensorView* weight = model.weights.Find("lm_head.weight");
  if (weight == nullptr) {
    return LanguageModelHead(encoder.embedding());
  }
  return GuardTorch("loading the language-model head", [&]() -> absl::StatusOr<LanguageModelHead> {
    const c10::InferenceMode inference;
    return LanguageModelHead(UploadWeight(*weight, encoder.options()));
  });
}

// Loads the heads that are copied from host memory, before the decoder's tensors are released
// there.
absl::StatusOr<ModelHeads> LoadScoreHeads(const HostModel& model, at::Device device) {
  ModelHeads heads;
  if (model.reranker.has_value()) {
    CANOPY_ASSIGN_OR_RETURN(heads.reranker, LoadReranker(model, device));
  }
  if (model.weights.has_decision_head) {
    CANOPY_ASSIGN_OR_RETURN(heads.decision, SetHead::Load(model.weights, device));
  }
  if (const TensorView* weight = model.weights.Find("score.weight"); weight != nullptr) {
    CANOPY_ASSIGN_OR_RETURN(RewardHead reward, LoadReward(*weight, device));
    heads.reward.emplace(std::move(reward));
  }
  return heads;
}

absl::Status RecordGraphs(const TorchRunnerOptions& options, TorchRunner& runner) {
  absl::StatusOr<bool> recorded = true;
  while (recorded.ok() && *recorded) {
    const absl::Status status = RunOnDevice(options, "graph", [&] {
      recorded = runner.RecordNextGraph();
      return recorded.status();
    });
    // Without graphs the fused backend still runs, but slower.
    if (absl::IsResourceExhausted(status)) {
      LogWarning("graphs_not_recorded", {{"error", std::string(status.message())}});
      return absl::OkStatus();
    }
    CANOPY_RETURN_IF_ERROR(status);
  }
  return absl::OkStatus();
}

// Runs everything once, and measures if the policy requires it.
absl::Status PrepareRoutes(const TorchRunnerOptions& options, at::Device device,
                           TorchRunner& runner) {
  const ModelInfo& info = *runner.info();
  CANOPY_RETURN_IF_ERROR(RecordGraphs(options, runner));
  InterleavedRunner interleaved(options, runner);
  const int64_t max_batch_tokens = MaxBatchTokens(options, info.device);
  if (options.replacement.has_value()) {
    // The replacement does the same work with other numbers, so the measured costs apply and the
    // kernels are loaded. Requests wait for each forward here, so there are only a few small ones.
    const ModelInfo& served = *options.replacement->served;
    CANOPY_RETURN_IF_ERROR(WarmUpBackends(interleaved, max_batch_tokens, /*num_sizes=*/1));
    CANOPY_RETURN_IF_ERROR(WarmUpHeads(interleaved, max_batch_tokens));
    runner.SetRoutes({served.default_policy, served.policy_reason, served.route_costs});
    // A backend that the device refused to run counts as one that does not run.
    return CheckWanted(options);
  }
  ModelRoutesOptions routes;
  routes.policy = options.model.policy;
  routes.costs_file = options.model.route_costs;
  routes.key = {DescribeDevice(device), info.dtype, info.fingerprint, options.build};
  routes.measure.max_batch_tokens = max_batch_tokens;
  CANOPY_ASSIGN_OR_RETURN(const ModelRoutes set_up, SetUpModelRoutes(interleaved, routes));
  CANOPY_RETURN_IF_ERROR(WarmUpHeads(interleaved, max_batch_tokens));
  runner.SetRoutes(set_up);
  return absl::OkStatus();
}

// Checks that the checkpoint is the requested one, and fits the model that serves as far as its
// files show, before it takes memory on the device.
absl::Status CheckFits(const ModelInfo& info, const Replacement& replacement) {
  CANOPY_RETURN_IF_ERROR(CheckFingerprint(info.fingerprint, replacement.expected_fingerprint));
  ModelInfo next = info;
  next.fused_supported = replacement.served->fused_supported;
  return CheckReplaces(next, *replacement.served);
}

absl::StatusOr<std::unique_ptr<TorchRunner>> Upload(const TorchRunnerOptions& options,
                                                    const HostModel& model,
                                                    const at::TensorOptions& placement,
                                                    ModelInfo info) {
  CANOPY_ASSIGN_OR_RETURN(ModelHeads heads, LoadScoreHeads(model, placement.device()));
  CANOPY_ASSIGN_OR_RETURN(
      std::unique_ptr<TreeEncoder> encoder,
      TreeEncoder::Create(model.config, model.weights, placement, options.kernels,
                          [&options] { return CheckWanted(options); }));
  info.fused_supported = encoder->fused_status().ok();
  info.fused_reason = std::string(encoder->fused_status().message());
  if (HasLanguageModelHead(model)) {
    CANOPY_ASSIGN_OR_RETURN(LanguageModelHead head, LoadLanguageModelHead(model, *encoder));
    heads.language_model.emplace(std::move(head));
  }
  return std::make_unique<TorchRunner>(std::make_shared<const ModelInfo>(std::move(info)),
                                       std::move(encoder), std::move(heads));
}

// The copies and the forwards of the model that serves do not wait for each other.
absl::StatusOr<std::unique_ptr<TorchRunner>> UploadReplacement(const TorchRunnerOptions& options,
                                                               const HostModel& model,
                                                               const at::TensorOptions& placement,
                                                               const ModelInfo& info) {
  return GuardTorch("loading weights", [&]() -> absl::StatusOr<std::unique_ptr<TorchRunner>> {
    SideStream stream(placement.device());
    CANOPY_ASSIGN_OR_RETURN(std::unique_ptr<TorchRunner> runner,
                            Upload(options, model, placement, info));
    stream.Wait();
    return runner;
  });
}

// Host copies of the checkpoint are freed before this function returns.
absl::StatusOr<std::unique_ptr<TorchRunner>> LoadRunner(const TorchRunnerOptions& options,
                                                        const at::TensorOptions& placement) {
  CANOPY_ASSIGN_OR_RETURN(const HostModel model,
                          OpenHostModel(options, placement.device().str(),
                                        static_cast<int64_t>(placement.dtype().itemsize())));
  ModelInfo info = DescribeModel(options, model, placement);
  if (!options.replacement.has_value()) {
    return Upload(options, model, placement, std::move(info));
  }
  CANOPY_RETURN_IF_ERROR(CheckFits(info, *options.replacement));
  CANOPY_RETURN_IF_ERROR(CheckWanted(options));
  return UploadReplacement(options, model, placement, info);
}

}  // namespace

absl::StatusOr<std::unique_ptr<ModelRunner>> LoadTorchRunner(const TorchRunnerOptions& options) {
  if (options.model.threads < 0 || options.model.max_batch_tokens < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("threads ", options.model.threads, " and max_batch_tokens ",
                     options.model.max_batch_tokens, " must not be negative"));
  }
  ConfigureTorch(options.model.threads);
  CANOPY_ASSIGN_OR_RETURN(const at::Device device, ResolveDevice(options.model.device));
  CANOPY_ASSIGN_OR_RETURN(const at::ScalarType dtype, ResolveDtype(options.model.dtype, device));
  const auto placement = at::TensorOptions().device(device).dtype(dtype);
  CANOPY_ASSIGN_OR_RETURN(std::unique_ptr<TorchRunner> runner, LoadRunner(options, placement));
  if (options.prepare_routes) {
    CANOPY_RETURN_IF_ERROR(PrepareRoutes(options, device, *runner));
  }
  return runner;
}

}  // namespace canopy
