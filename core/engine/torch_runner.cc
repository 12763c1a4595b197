#include "core/engine/torch_runner.h"

#include <algorithm>
#include <string>
#include <utility>

#include "ATen/core/Tensor.h"
#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "c10/core/InferenceMode.h"
#include "core/base/status_macros.h"
#include "core/engine/part_heads.h"
#include "core/engine/vocabulary_hash.h"
#include "core/model/checkpoint.h"
#include "core/model/model_config.h"
#include "core/model/synthetic.h"
#include "core/model/tree_encoder.h"
#include "core/model/weight_schema.h"
#include "core/model/weights.h"
#include "core/ops/device.h"
#include "core/ops/torch_guard.h"
#include "core/scoring/output_rows.h"

namespace canopy {
namespace {

constexpr absl::string_view kSyntheticPrefix = "synthetic:";

class TorchRunner : public ModelRunner {
 public:
  TorchRunner(std::shared_ptr<const ModelInfo> info, std::unique_ptr<const TreeEncoder> encoder,
              ModelHeads heads)
      : info_(std::move(info)), encoder_(std::move(encoder)), heads_(std::move(heads)) {}

  std::shared_ptr<const ModelInfo> info() const override { return info_; }

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

 private:
  const std::shared_ptr<const ModelInfo> info_;
  const std::unique_ptr<const TreeEncoder> encoder_;
  const ModelHeads heads_;
};

bool HasLanguageModelHead(const ModelConfig& config) {
  return config.head == ModelHead::kLanguageModel;
}

struct HostModel {
  ModelConfig config;
  WeightMap weights;
  std::string vocabulary_hash;
};

absl::StatusOr<HostModel> OpenModel(const TorchRunnerOptions& options) {
  absl::string_view source = options.source;
  const bool synthetic = absl::ConsumePrefix(&source, kSyntheticPrefix);
  const std::string place(source);
  CANOPY_ASSIGN_OR_RETURN(const ModelConfig config,
                          LoadModelConfig(options.config.empty() ? place : options.config));
  CANOPY_ASSIGN_OR_RETURN(const WeightSource weights,
                          synthetic ? MakeSyntheticWeights(config) : OpenCheckpoint(place));
  CANOPY_ASSIGN_OR_RETURN(WeightMap matched, MatchWeights(weights, config));
  std::string vocabulary_hash;
  if (!synthetic) {
    CANOPY_ASSIGN_OR_RETURN(vocabulary_hash, VocabularyHash(place));
  }
  return HostModel{config, std::move(matched), std::move(vocabulary_hash)};
}

absl::StatusOr<ModelInfo> DescribeModel(const TorchRunnerOptions& options, const HostModel& model,
                                        const at::TensorOptions& placement) {
  const ModelConfig& config = model.config;
  ModelInfo info;
  info.name = options.name;
  CANOPY_ASSIGN_OR_RETURN(info.fingerprint, model.weights.source.Fingerprint());
  info.architecture = config.architecture;
  info.parameters = CountParameters(model.weights);
  info.hidden_size = config.hidden_size;
  info.vocab_size = config.vocab_size;
  info.device = placement.device().str();
  const int64_t max_batch_tokens =
      options.max_batch_tokens > 0 ? options.max_batch_tokens : DefaultMaxBatchTokens(info.device);
  info.max_path_tokens = std::min(config.max_position_embeddings, max_batch_tokens);
  // A language model's folder may hold a reward head too.
  const TensorView* score = model.weights.Find("score.weight");
  info.num_labels = score == nullptr ? 0 : score->shape[0];
  info.has_lm_head = HasLanguageModelHead(config);
  info.dtype = placement.dtype() == at::kFloat ? "float32" : "bfloat16";
  info.vocabulary_hash = model.vocabulary_hash;
  return info;
}

absl::StatusOr<ModelHeads> LoadHeads(const HostModel& model, const TreeEncoder& encoder) {
  return GuardTorch("loading the heads", [&]() -> absl::StatusOr<ModelHeads> {
    const c10::InferenceMode inference;
    ModelHeads heads;
    if (const TensorView* weight = model.weights.Find("score.weight")) {
      heads.reward.emplace(UploadWeight(*weight, encoder.options().dtype(at::kFloat)));
    }
    if (HasLanguageModelHead(model.config)) {
      const TensorView* weight = model.weights.Find("lm_head.weight");
      heads.language_model.emplace(weight == nullptr ? encoder.embedding()
                                                     : UploadWeight(*weight, encoder.options()));
    }
    return heads;
  });
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
  CANOPY_ASSIGN_OR_RETURN(std::unique_ptr<const TreeEncoder> encoder,
                          TreeEncoder::Create(model.config, model.weights, placement));
  CANOPY_ASSIGN_OR_RETURN(ModelHeads heads, LoadHeads(model, *encoder));
  return std::make_unique<TorchRunner>(std::make_shared<const ModelInfo>(std::move(info)),
                                       std::move(encoder), std::move(heads));
}

}  // namespace canopy
