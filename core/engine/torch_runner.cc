#include "core/engine/torch_runner.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ATen/core/Tensor.h"
#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "c10/core/InferenceMode.h"
#include "core/base/logging.h"
#include "core/base/status_macros.h"
#include "core/engine/model_routes.h"
#include "core/engine/part_heads.h"
#include "core/engine/vocabulary_hash.h"
#include "core/model/checkpoint.h"
#include "core/model/model_config.h"
#include "core/model/synthetic.h"
#include "core/model/tree_encoder.h"
#include "core/model/weight_schema.h"
#include "core/model/weights.h"
#include "core/ops/device.h"
#include "core/ops/device_memory.h"
#include "core/ops/torch_guard.h"
#include "core/scoring/output_rows.h"
#include "core/scoring/reranker.h"
#include "core/scoring/reward.h"
#include "core/scoring/set_head.h"
#include "core/scoring/token_logprobs.h"

namespace canopy {
namespace {

constexpr absl::string_view kSyntheticPrefix = "synthetic:";

class TorchRunner : public ModelRunner {
 public:
  TorchRunner(std::shared_ptr<const ModelInfo> info, std::unique_ptr<const TreeEncoder> encoder,
              ModelHeads heads)
      : info_(std::move(info)), encoder_(std::move(encoder)), heads_(std::move(heads)) {}

  std::shared_ptr<const ModelInfo> info() const override { return info_; }

  GraphUse graphs() const override { return {encoder_->num_graphs(), encoder_->graph_bytes()}; }

  DeviceMemory device_memory() const override {
    const DeviceBytes bytes = ReadDeviceBytes(encoder_->options().device());
    return {bytes.allocated, bytes.reserved, bytes.total};
  }

  // Before the runner is handed out.
  void SetRoutes(const ModelRoutes& routes) {
    ModelInfo info = *info_;
    info.default_policy = routes.default_policy;
    info.route_costs = routes.costs;
    info_ = std::make_shared<const ModelInfo>(std::move(info));
  }

  absl::Status RecordGraphs() { return encoder_->RecordGraphs(); }

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
  const std::unique_ptr<const TreeEncoder> encoder_;
  const ModelHeads heads_;
};

struct HostModel {
  ModelConfig config;
  WeightMap weights;
  std::string vocabulary_hash;
  DecisionTemperatures temperatures;
  std::optional<RerankerTokens> reranker;
};

// A decision head's weights stand on the backbone alone, whatever its config names.
bool HasLanguageModelHead(const HostModel& model) {
  return model.config.head == ModelHead::kLanguageModel && !model.weights.has_decision_head;
}

absl::StatusOr<HostModel> OpenModel(const TorchRunnerOptions& options) {
  absl::string_view source = options.source;
  const bool synthetic = absl::ConsumePrefix(&source, kSyntheticPrefix);
  const std::string place(source);
  CANOPY_ASSIGN_OR_RETURN(const ModelConfig config,
                          LoadModelConfig(options.config.empty() ? place : options.config));
  CANOPY_ASSIGN_OR_RETURN(const WeightSource weights,
                          synthetic ? MakeSyntheticWeights(config) : OpenCheckpoint(place));
  CANOPY_ASSIGN_OR_RETURN(WeightMap matched, MatchWeights(weights, config));
  HostModel model{config, std::move(matched), {}, {}, {}};
  if (!synthetic) {
    CANOPY_ASSIGN_OR_RETURN(model.vocabulary_hash, VocabularyHash(place));
    CANOPY_ASSIGN_OR_RETURN(model.temperatures, LoadTemperatures(place));
    CANOPY_ASSIGN_OR_RETURN(model.reranker, LoadRerankerTokens(place));
  }
  if (options.reranker.has_value()) {
    model.reranker = options.reranker;
  }
  return model;
}

absl::StatusOr<ModelInfo> DescribeModel(const TorchRunnerOptions& options, const HostModel& model,
                                        const at::TensorOptions& placement) {
  const ModelConfig& config = model.config;
  ModelInfo info;
  info.name = options.name;
  CANOPY_ASSIGN_OR_RETURN(info.fingerprint, model.weights.source.Fingerprint());
  info.architecture = config.architecture;
  info.parameters = model.weights.CountParameters();
  info.hidden_size = config.hidden_size;
  info.vocab_size = config.vocab_size;
  info.device = placement.device().str();
  const int64_t max_batch_tokens =
      options.max_batch_tokens > 0 ? options.max_batch_tokens : DefaultMaxBatchTokens(info.device);
  info.max_path_tokens = std::min(config.max_position_embeddings, max_batch_tokens);
  // A language model's folder may hold a reward head too.
  const TensorView* score = model.weights.Find("score.weight");
  info.num_labels = score == nullptr ? 0 : score->shape[0];
  info.has_value_head = info.num_labels == 1;
  info.has_lm_head = HasLanguageModelHead(model);
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
  if (!HasLanguageModelHead(model)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "reranker tokens need a language model; this is a ",
        model.weights.has_decision_head ? "typed-decision model" : model.config.architecture));
  }
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

absl::StatusOr<ModelHeads> LoadHeads(const HostModel& model, const TreeEncoder& encoder) {
  const at::Device device = encoder.options().device();
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
  if (HasLanguageModelHead(model)) {
    CANOPY_ASSIGN_OR_RETURN(LanguageModelHead head, LoadLanguageModelHead(model, encoder));
    heads.language_model.emplace(std::move(head));
  }
  return heads;
}

// Has everything run once, and measures where the policy asks for it.
absl::Status PrepareRoutes(const TorchRunnerOptions& options, at::Device device,
                           TorchRunner& runner) {
  const ModelInfo& info = *runner.info();
  // Without graphs the fused backend runs, if slower.
  if (absl::Status recorded = runner.RecordGraphs(); !recorded.ok()) {
    if (!absl::IsResourceExhausted(recorded)) {
      return recorded;
    }
    LogWarning("graphs_not_recorded", {{"error", std::string(recorded.message())}});
  }
  ModelRoutesOptions routes;
  routes.policy = options.policy;
  routes.costs_file = options.route_costs;
  routes.key = {DescribeDevice(device), info.dtype, info.fingerprint, options.build};
  routes.measure.max_batch_tokens =
      options.max_batch_tokens > 0 ? options.max_batch_tokens : DefaultMaxBatchTokens(info.device);
  CANOPY_ASSIGN_OR_RETURN(const ModelRoutes set_up, SetUpModelRoutes(runner, routes));
  runner.SetRoutes(set_up);
  return absl::OkStatus();
}

}  // namespace

int64_t DefaultMaxBatchTokens(absl::string_view device) {
  return absl::StartsWith(device, "cuda") ? 65'536 : 16'384;
}

absl::StatusOr<std::unique_ptr<ModelRunner>> LoadTorchRunner(const TorchRunnerOptions& options) {
  if (options.threads < 0 || options.max_batch_tokens < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("threads ", options.threads, " and max_batch_tokens ",
                     options.max_batch_tokens, " must not be negative"));
  }
  ConfigureTorch(options.threads);
  CANOPY_ASSIGN_OR_RETURN(const at::Device device, ResolveDevice(options.device));
  CANOPY_ASSIGN_OR_RETURN(const at::ScalarType dtype, ResolveDtype(options.dtype, device));
  const auto placement = at::TensorOptions().device(device).dtype(dtype);
  CANOPY_ASSIGN_OR_RETURN(const HostModel model, OpenModel(options));
  CANOPY_ASSIGN_OR_RETURN(ModelInfo info, DescribeModel(options, model, placement));
  CANOPY_ASSIGN_OR_RETURN(
      std::unique_ptr<const TreeEncoder> encoder,
      TreeEncoder::Create(model.config, model.weights, placement, options.kernels));
  info.fused_supported = encoder->fused_status().ok();
  info.fused_reason = std::string(encoder->fused_status().message());
  CANOPY_ASSIGN_OR_RETURN(ModelHeads heads, LoadHeads(model, *encoder));
  auto runner = std::make_unique<TorchRunner>(std::make_shared<const ModelInfo>(std::move(info)),
                                              std::move(encoder), std::move(heads));
  if (options.prepare_routes) {
    CANOPY_RETURN_IF_ERROR(PrepareRoutes(options, device, *runner));
  }
  return runner;
}

}  // namespace canopy
