// What goes into the engine and what comes out, without LibTorch, gRPC or protobuf.
#ifndef CORE_ENGINE_TYPES_H_
#define CORE_ENGINE_TYPES_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/engine/decision.h"
#include "core/tree/outputs.h"
#include "core/tree/path_batch.h"
#include "core/tree/route.h"

namespace canopy {

// Forwards that a device has recorded to replay them, and the device memory that they hold.
struct GraphUse {
  int64_t count = 0;
  int64_t bytes = 0;
};

// Memory of a device; all 0 on a CPU.
struct DeviceMemory {
  int64_t allocated_bytes = 0;  // in tensors
  int64_t reserved_bytes = 0;   // held by this process's allocator
  int64_t total_bytes = 0;      // of the device
};

// What computes a model's scores.
enum class ScoreHead {
  kReward,    // a linear map of the endpoint vector
  kDecision,  // a head over all candidates of a question; its scores come from ModelRunner::Decide
  kReranker,  // the share of one of two vocabulary logits at the endpoint
};

// A model that is loaded. Immutable.
struct ModelInfo {
  std::string name;
  int64_t version = 1;
  std::string fingerprint;   // 16 hex digits
  std::string architecture;  // as in config.json
  int64_t parameters = 0;
  int64_t hidden_size = 0;
  int64_t vocab_size = 0;
  int64_t max_path_tokens = 0;  // the smaller of the model's positions and the token budget
  int64_t num_labels = 0;       // scores of a candidate; 0 = no scoring head
  ScoreHead score_head = ScoreHead::kReward;  // where num_labels is not 0
  KindTemperatures temperatures;
  bool has_lm_head = false;     // gives log-probs
  std::string lm_head_reason;   // why a language model has none
  bool has_value_head = false;  // a reward head of one label, which may stand at every token
  std::string dtype;            // "float32", "bfloat16" or "float16"
  std::string device;           // "cpu" or "cuda:N"
  bool tree_supported = true;
  std::string support_reason;    // why not
  bool fused_supported = false;  // whether Backend::kFused runs on this model and device
  std::string fused_reason;      // why not
  BackendSupport backend_support() const { return {tree_supported, fused_supported}; }
  Policy default_policy = Policy::kReference;  // of requests that leave it open
  std::string policy_reason;                   // why it is that
  // What the layers take, for forecasts; 0 = not known.
  int64_t num_layers = 0;
  int64_t layer_weights = 0;   // that one token meets in one layer, experts not chosen left out
  int64_t attention_size = 0;  // query heads x head size
  // What backends cost; null = not measured, so that Policy::kMeasured is refused.
  std::shared_ptr<const RouteCosts> route_costs;
  std::string vocabulary_hash;  // of tokenizer.json; empty without one
  // How the folder's own library makes one vector of a text: "last", "mean", ...; empty if the
  // folder does not say. Vectors here are those of the last token whatever it is.
  std::string pooling;
  bool folder_normalizes = false;  // the folder's own vectors have L2 norm 1
  // A classifier's padding token, at which a path that ends in it is scored here.
  std::optional<int32_t> pad_token;
};

inline bool HasHead(const ModelInfo& model, OutputHead head) {
  switch (head) {
    case OutputHead::kNone:
      return true;
    case OutputHead::kScoring:
      return model.num_labels > 0;
    case OutputHead::kOneScore:
      return model.num_labels == 1;
    case OutputHead::kLanguageModel:
      return model.has_lm_head;
    case OutputHead::kValue:
      return model.has_value_head;
  }
  return false;
}

// Returns the bytes of what one entry of an output takes as the engine hands it out.
inline int64_t EntryBytes(const ModelInfo& model, const OutputSelection& selection, Output output) {
  if (SpecOf(output).unit != OutputUnit::kCandidate) {
    return ListBytes(selection, output);
  }
  const int64_t numbers = AmountOf(selection, output);
  return output == Output::kVectors
             ? numbers * model.hidden_size * VectorTypeBytes(selection.vector_type)
             : numbers * model.num_labels * static_cast<int64_t>(sizeof(float));
}

// What the caller says about routing; unset = as the engine is configured.
struct RouteRequest {
  Backend backend = Backend::kAuto;
  Packing packing = Packing::kAuto;
  std::optional<Policy> policy;
  std::optional<int64_t> max_mask_bytes;
};

// Which requests go first. Low ones run when no normal one waits, or once their patience is at an
// end.
enum class Priority { kNormal, kLow };

// Names one job as long as it is not answered.
using JobId = uint64_t;

// One request. The batch must be valid (ValidatePathBatch) with all tokens inside the vocabulary.
struct ScoreJob {
  JobId id = 0;        // from Engine::NewJobId, for Engine::Cancel; 0 = cannot be cancelled
  std::string model;   // empty = the first
  std::string client;  // whom it comes from: batches are fair between clients
  std::string tenant;  // prefixes are shared within one
  Priority priority = Priority::kNormal;
  std::shared_ptr<const PathBatch> batch;
  OutputSelection outputs;
  RouteRequest routing;
  std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max();
};

struct StageTimes {
  double queue_ms = 0;   // waiting: neither planned nor on the device
  double plan_ms = 0;    // trie, layout, route and index arrays
  double device_ms = 0;  // model, heads and copies
};

struct ScoreResult {
  std::shared_ptr<const ModelInfo> model;
  // Paths in request order. An output that a path lacks has NaN in all its places, and -1 for ids.
  std::vector<float> scores;    // [paths, num_labels]; empty when not asked for
  std::string vectors;          // [paths, hidden_size] in the type asked for; empty likewise
  TokenOutputs tokens;          // entries are empty unless distributions() were asked for
  ValueOutputs values;          // likewise for values
  std::vector<uint8_t> finite;  // [paths]; 0 = its last hidden state is not: it lacks everything
  std::vector<OutputSet> unscored;  // [paths]; the outputs that each path lacks
  // [paths]; as PartOutput has it. While the engine collects them, then empty.
  std::vector<uint8_t> inner_finite;
  std::vector<float> endpoints;  // [paths, hidden_size] while the engine collects them, then empty
  PlanCounts counts;
  Route route;
  // Slots that the device ran for it, padding and reruns included; of a shared forward its share.
  int64_t computed_tokens = 0;
  int32_t parts = 0;           // forwards
  int32_t batch_requests = 1;  // that shared one
  StageTimes times;
};

}  // namespace canopy

#endif  // CORE_ENGINE_TYPES_H_
