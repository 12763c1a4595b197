// The inputs and results of the engine, without LibTorch, gRPC or protobuf.
#ifndef CORE_ENGINE_TYPES_H_
#define CORE_ENGINE_TYPES_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/enum_table.h"
#include "core/engine/decision.h"
#include "core/tree/outputs.h"
#include "core/tree/path_batch.h"
#include "core/tree/route.h"

namespace canopy {

// The forwards that a device has recorded for replay, and the device memory that they hold.
struct GraphUse {
  int64_t count = 0;
  int64_t bytes = 0;
};

// The memory of a device. All fields are 0 on a CPU.
struct DeviceMemory {
  int64_t allocated_bytes = 0;  // allocated by tensors
  int64_t reserved_bytes = 0;   // held by the allocator of this process
  int64_t total_bytes = 0;      // the size of the device's memory
};

// The head that computes a model's scores.
enum class ScoreHead {
  kReward,    // a linear map of the endpoint vector
  kDecision,  // a head over all candidates of a question: ModelRunner::Decide computes its scores
  kReranker,  // the softmax of two vocabulary logits at the endpoint
};
inline constexpr NamedValue<ScoreHead> kScoreHeads[] = {
    {ScoreHead::kReward, "reward"},
    {ScoreHead::kDecision, "decision"},
    {ScoreHead::kReranker, "reranker"},
};
static_assert(IsEnumTable(kScoreHeads, ScoreHead::kReranker));

// A loaded model. Immutable.
struct ModelInfo {
  std::string name;
  int64_t version = 1;
  std::string fingerprint;   // 16 hex digits
  std::string architecture;  // `architectures` of config.json
  int64_t parameters = 0;
  int64_t hidden_size = 0;
  int64_t vocab_size = 0;
  int64_t max_path_tokens = 0;  // the smaller of the model's positions and the token budget
  int64_t num_labels = 0;       // the number of scores per candidate; 0 = no scoring head
  ScoreHead score_head = ScoreHead::kReward;  // meaningful if num_labels > 0
  KindTemperatures temperatures;
  bool has_lm_head = false;     // computes log-probs
  std::string lm_head_reason;   // if a language model has no head, the reason
  bool has_value_head = false;  // a reward head with one label, which can score every token
  std::string dtype;            // "float32", "bfloat16" or "float16"
  std::string device;           // "cpu" or "cuda:N"
  bool tree_supported = true;
  std::string support_reason;    // empty if tree_supported
  bool fused_supported = false;  // Backend::kFused runs on this model and device
  std::string fused_reason;      // empty if fused_supported
  BackendSupport backend_support() const { return {tree_supported, fused_supported}; }
  Policy default_policy = Policy::kReference;  // for requests that name no policy
  std::string policy_reason;                   // the reason for default_policy
  // Sizes of the layers, for forecasts. 0 = unknown.
  int64_t num_layers = 0;
  // the weights that one token uses in one layer, without unused experts
  int64_t layer_weights = 0;
  int64_t attention_size = 0;  // query heads x head size
  // The measured costs of the backends. Null = not measured, and Policy::kMeasured is refused.
  std::shared_ptr<const RouteCosts> route_costs;
  std::string vocabulary_hash;  // the hash of tokenizer.json; empty without that file
  // The pooling of the folder's own library: "last", "mean", ...; empty if the folder names none.
  // Canopy always returns the vector of the last token.
  std::string pooling;
  bool folder_normalizes = false;  // the folder's own library returns vectors of L2 norm 1
  // The padding token of a classifier. Canopy scores a path that ends in this token at the token
  // itself.
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

// Returns the bytes that one entry of an output takes in a ScoreResult.
inline int64_t EntryBytes(const ModelInfo& model, const OutputSelection& selection, Output output) {
  if (SpecOf(output).unit != OutputUnit::kCandidate) {
    return ListBytes(selection, output);
  }
  const int64_t numbers = AmountOf(selection, output);
  return output == Output::kVectors
             ? numbers * model.hidden_size * VectorTypeBytes(selection.vector_type)
             : numbers * model.num_labels * static_cast<int64_t>(sizeof(float));
}

// The routing that a request asks for. Unset fields take the engine's defaults.
struct RouteRequest {
  Backend backend = Backend::kAuto;
  Packing packing = Packing::kAuto;
  std::optional<Policy> policy;
  std::optional<int64_t> max_mask_bytes;
};

// The priority of a request. A low request runs if no normal one waits, or after
// Options::low_priority_patience.
enum class Priority { kNormal, kLow };

// Identifies a job until it is answered.
using JobId = uint64_t;

// One request. Precondition: the batch is valid (ValidatePathBatch) and all tokens are in the
// vocabulary.
struct ScoreJob {
  JobId id = 0;        // from Engine::NewJobId, for Engine::Cancel; 0 = the job cannot be cancelled
  std::string model;   // empty = the first model
  std::string client;  // the sender; device time is shared fairly between clients
  std::string tenant;  // only jobs of one tenant share prefixes, unless share_across_tenants
  Priority priority = Priority::kNormal;
  std::shared_ptr<const PathBatch> batch;
  OutputSelection outputs;
  RouteRequest routing;
  std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max();
};

struct StageTimes {
  double queue_ms = 0;   // waiting time: the job is neither planned nor on the device
  double plan_ms = 0;    // time to build the trie, layout, route and index arrays
  double device_ms = 0;  // time of the model, the heads and the copies
};

struct ScoreResult {
  std::shared_ptr<const ModelInfo> model;
  // Paths are in request order. An output that a path lacks is filled with NaN, or with -1 for ids.
  std::vector<float> scores;  // [paths, num_labels]; empty if not requested
  std::string vectors;        // [paths, hidden_size] in the requested type; empty if not requested
  TokenOutputs tokens;        // entries are empty unless distributions() was requested
  ValueOutputs values;        // entries are empty unless values were requested
  // [paths]; 0 = the last hidden state is not finite, and the path lacks every output
  std::vector<uint8_t> finite;
  std::vector<OutputSet> unscored;  // [paths]; the outputs that each path lacks
  // [paths]; as in PartOutput. Filled while the engine collects results, then cleared.
  std::vector<uint8_t> inner_finite;
  // [paths, hidden_size]; filled while the engine collects results, then cleared
  std::vector<float> endpoints;
  PlanCounts counts;
  Route route;
  // The slots that the device computed for the job, with padding and reruns. For a shared forward,
  // the job's share.
  int64_t computed_tokens = 0;
  int32_t parts = 0;           // the number of forwards
  int32_t batch_requests = 1;  // the number of requests that shared a forward
  StageTimes times;
};

}  // namespace canopy

#endif  // CORE_ENGINE_TYPES_H_
