#include "core/engine/torch_runner.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ATen/core/Tensor.h"
#include "ATen/ops/cat.h"
#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "c10/core/InferenceMode.h"
#include "core/base/status_macros.h"
#include "core/engine/vocabulary_hash.h"
#include "core/model/checkpoint.h"
#include "core/model/model_config.h"
#include "core/model/synthetic.h"
#include "core/model/tree_encoder.h"
#include "core/model/weight_schema.h"
#include "core/model/weights.h"
#include "core/ops/device.h"
#include "core/ops/index_upload.h"
#include "core/ops/torch_guard.h"
#include "core/scoring/reward.h"
#include "core/scoring/vectors.h"

namespace canopy {
namespace {

constexpr absl::string_view kSyntheticPrefix = "synthetic:";

at::ScalarType ScalarTypeOf(VectorType type) {
  switch (type) {
    case VectorType::kBFloat16:
      return at::kBFloat16;
    case VectorType::kFloat16:
      return at::kHalf;
    case VectorType::kFloat32:
      break;
  }
  return at::kFloat;
}

at::Tensor Bytes(const at::Tensor& tensor) { return tensor.contiguous().view(-1).view(at::kByte); }

class TorchRunner : public ModelRunner {
 public:
  TorchRunner(std::shared_ptr<const ModelInfo> info, std::unique_ptr<const TreeEncoder> encoder,
              std::optional<RewardHead> reward)
      : info_(std::move(info)), encoder_(std::move(encoder)), reward_(std::move(reward)) {}

  std::shared_ptr<const ModelInfo> info() const override { return info_; }

  absl::StatusOr<PartOutput> Run(const TreePlan& plan, const OutputSelection& outputs) override {
    if (outputs.scores && !reward_.has_value()) {
      return absl::InvalidArgumentError(absl::StrCat(info_->name, " has no scoring head"));
    }
    CANOPY_ASSIGN_OR_RETURN(const at::Tensor hidden, encoder_->Encode(plan, plan.endpoints));
    return GuardTorch("scoring", [&]() -> absl::StatusOr<PartOutput> {
      const c10::InferenceMode inference;
      return Finish(hidden, outputs);
    });
  }

 private:
  // Heads and one copy down: finite flags, then scores, then vectors.
  PartOutput Finish(const at::Tensor& hidden, const OutputSelection& outputs) const {
    at::Tensor finite = FiniteRows(hidden);
    std::vector<at::Tensor> results;
    if (outputs.scores) {
      results.push_back(reward_->Score(hidden));
    }
    if (outputs.vectors) {
      results.push_back(
          EndpointVectors(hidden, ScalarTypeOf(outputs.vector_type), outputs.normalize));
    }
    // A finite hidden state may still overflow in a head or in float16.
    std::vector<at::Tensor> parts = {finite};
    for (const at::Tensor& result : results) {
      parts.front() = parts.front().logical_and(FiniteRows(result));
      parts.push_back(Bytes(result));
    }
    parts.front() = Bytes(parts.front());
    const at::Tensor bytes = CopyToHost(at::cat(parts));

    PartOutput output;
    const uint8_t* next = bytes.const_data_ptr<uint8_t>();
    const auto num_paths = static_cast<size_t>(hidden.size(0));
    output.finite.assign(next, next + num_paths);
    next += num_paths;
    if (outputs.scores) {
      output.scores.resize(num_paths * static_cast<size_t>(info_->num_labels));
      const size_t score_bytes = output.scores.size() * sizeof(float);
      std::memcpy(output.scores.data(), next, score_bytes);
      next += score_bytes;
    }
    if (outputs.vectors) {
      output.vectors.assign(next, bytes.const_data_ptr<uint8_t>() + bytes.numel());
    }
    return output;
  }

  const std::shared_ptr<const ModelInfo> info_;
  const std::unique_ptr<const TreeEncoder> encoder_;
  const std::optional<RewardHead> reward_;
};

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
  info.parameters = CountParameters(config);
  info.hidden_size = config.hidden_size;
  info.vocab_size = config.vocab_size;
  info.device = placement.device().str();
  const int64_t max_batch_tokens =
      options.max_batch_tokens > 0 ? options.max_batch_tokens : DefaultMaxBatchTokens(info.device);
  info.max_path_tokens = std::min(config.max_position_embeddings, max_batch_tokens);
  info.num_labels = config.num_labels;
  info.dtype = placement.dtype() == at::kFloat ? "float32" : "bfloat16";
  info.vocabulary_hash = model.vocabulary_hash;
  return info;
}

absl::StatusOr<std::optional<RewardHead>> LoadReward(const HostModel& model, at::Device device) {
  const TensorView* weight = model.weights.Find("score.weight");
  if (weight == nullptr) {
    return std::nullopt;
  }
  return GuardTorch("loading the reward head", [&]() -> absl::StatusOr<std::optional<RewardHead>> {
    const c10::InferenceMode inference;
    return RewardHead(UploadWeight(*weight, at::TensorOptions().dtype(at::kFloat).device(device)));
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
  info.fused_supported = encoder->fused_status().ok();
  CANOPY_ASSIGN_OR_RETURN(std::optional<RewardHead> reward, LoadReward(model, device));
  return std::make_unique<TorchRunner>(std::make_shared<const ModelInfo>(std::move(info)),
                                       std::move(encoder), std::move(reward));
}

}  // namespace canopy
