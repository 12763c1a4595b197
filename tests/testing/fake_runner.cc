#include "tests/testing/fake_runner.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/status_macros.h"

namespace canopy::testing {
namespace {

constexpr uint64_t kSeed = 0x9e3779b97f4a7c15;
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

uint64_t Mix(uint64_t state, uint64_t value) {
  state = (state ^ value) * 0xff51afd7ed558ccd;
  return state ^ (state >> 32);
}

uint64_t SeedOf(int64_t version) {
  return version == 1 ? kSeed : Mix(kSeed, static_cast<uint64_t>(version));
}

uint64_t HashPath(absl::Span<const int32_t> path, int64_t version = 1) {
  uint64_t hash = SeedOf(version);
  for (const int32_t token : path) {
    hash = Mix(hash, static_cast<uint32_t>(token));
  }
  return hash;
}

float Eighths(uint64_t hash) { return static_cast<float>(static_cast<int>(hash % 17) - 8) / 8; }

float ScoreOfHash(uint64_t hash, int64_t label) {
  return Eighths(Mix(hash, 1'000'000 + static_cast<uint64_t>(label)));
}

std::vector<float> VectorOfHash(uint64_t hash, int64_t hidden_size) {
  std::vector<float> vector(static_cast<size_t>(hidden_size));
  for (size_t i = 0; i < vector.size(); ++i) {
    vector[i] = Eighths(Mix(hash, i));
  }
  return vector;
}

FakeDistribution DistributionOfHash(uint64_t hash, float temperature) {
  return {Eighths(Mix(hash, 2'000'000)) / temperature, Eighths(Mix(hash, 2'000'001)),
          Eighths(Mix(hash, 2'000'002))};
}

float LogprobOfHash(uint64_t hash, int32_t token, float temperature) {
  return Eighths(Mix(hash, 3'000'000 + static_cast<uint64_t>(token))) / temperature;
}

std::pair<int32_t, float> TopOfHash(uint64_t hash, int32_t rank, float temperature) {
  const uint64_t mixed = Mix(hash, 4'000'000 + static_cast<uint64_t>(rank));
  return {static_cast<int32_t>(mixed % 1'000), Eighths(mixed) / temperature};
}

int32_t RankOfHash(uint64_t hash, int32_t token) {
  return 1 + static_cast<int32_t>(Mix(hash, 6'000'000 + static_cast<uint64_t>(token)) % 1'000);
}

float ValueOfHash(uint64_t hash) { return Eighths(Mix(hash, 5'000'000)); }

// Exact for FakeVector's values; other values are truncated.
uint16_t HalfBits(float value, VectorType type) {
  uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof(bits));
  if (type == VectorType::kBFloat16) {
    return static_cast<uint16_t>(bits >> 16);
  }
  const uint32_t sign = (bits >> 16) & 0x8000;
  const uint32_t exponent = (bits >> 23) & 0xff;
  if (exponent == 0) {
    return static_cast<uint16_t>(sign);
  }
  if (exponent == 0xff) {
    return static_cast<uint16_t>(sign | 0x7e00);
  }
  return static_cast<uint16_t>(sign | ((exponent - 112) << 10) | ((bits >> 13) & 0x3ff));
}

void AppendVector(absl::Span<const float> vector, VectorType type, std::string* data) {
  for (const float value : vector) {
    char bytes[sizeof(float)];
    if (type == VectorType::kFloat32) {
      std::memcpy(bytes, &value, sizeof(value));
    } else {
      const uint16_t half = HalfBits(value, type);
      std::memcpy(bytes, &half, sizeof(half));
    }
    data->append(bytes, static_cast<size_t>(VectorTypeBytes(type)));
  }
}

void Normalize(std::vector<float>* vector) {
  float square = 0;
  for (const float value : *vector) {
    square += value * value;
  }
  for (float& value : *vector) {
    value /= std::sqrt(square);
  }
}

// The data of each slot of a forward's grid.
struct Slots {
  std::vector<int32_t> parent;    // the previous slot of its path; -1 = none
  std::vector<uint64_t> hash;     // of the tokens from the root to the slot
  std::vector<uint8_t> poisoned;  // one of these tokens is the poison token
  std::vector<uint8_t> row_poisoned;
};

// Reads the grid by the ancestor rule alone: slot i attends to the slots whose subtree contains it.
// On the path backend these are all earlier slots.
absl::StatusOr<Slots> WalkGrid(const TreePlan& plan, int32_t poison_token, int64_t version) {
  const TokenGrid& grid = plan.grid;
  const auto size = static_cast<size_t>(grid.rows) * static_cast<size_t>(grid.columns);
  const bool is_path = plan.backend == Backend::kPath;
  if (grid.token_ids.size() != size || grid.position_ids.size() != size ||
      grid.exit.size() != (is_path ? 0 : size)) {
    return absl::InternalError("fake runner: the grid's arrays disagree with its shape");
  }
  Slots slots{std::vector<int32_t>(size), std::vector<uint64_t>(size), std::vector<uint8_t>(size),
              std::vector<uint8_t>(static_cast<size_t>(grid.rows))};
  for (int32_t row = 0; row < grid.rows; ++row) {
    const size_t base = static_cast<size_t>(row) * grid.columns;
    std::vector<int32_t> ancestors;
    for (int32_t column = 0; column < grid.columns; ++column) {
      while (!is_path && !ancestors.empty() && grid.exit[base + ancestors.back()] < column) {
        ancestors.pop_back();
      }
      const size_t slot = base + column;
      const bool has_parent = !ancestors.empty();
      const size_t parent = has_parent ? base + ancestors.back() : 0;
      const int32_t token = grid.token_ids[slot];
      slots.parent[slot] = has_parent ? static_cast<int32_t>(parent) : -1;
      slots.hash[slot] =
          Mix(has_parent ? slots.hash[parent] : SeedOf(version), static_cast<uint32_t>(token));
      slots.poisoned[slot] = token == poison_token || (has_parent && slots.poisoned[parent]);
      slots.row_poisoned[row] |= slots.poisoned[slot];
      ancestors.push_back(column);
    }
  }
  for (const int32_t endpoint : plan.endpoints) {
    if (endpoint < 0 || static_cast<size_t>(endpoint) >= size) {
      return absl::InternalError(absl::StrCat("fake runner: endpoint ", endpoint, " of ", size));
    }
  }
  return slots;
}

// Checks that position ids are depths, which the hash does not show.
absl::Status CheckEndpointPositions(const TreePlan& plan) {
  const TokenGrid& grid = plan.grid;
  for (const int32_t endpoint : plan.endpoints) {
    const int32_t row_begin = endpoint / grid.columns * grid.columns;
    int32_t visible = 0;
    for (int32_t slot = row_begin; slot <= endpoint; ++slot) {
      visible += plan.backend == Backend::kPath || grid.exit[slot] >= endpoint - row_begin ? 1 : 0;
    }
    if (grid.position_ids[endpoint] != visible - 1) {
      return absl::InternalError(absl::StrCat("fake runner: slot ", endpoint, " has position ",
                                              grid.position_ids[endpoint], ", depth ",
                                              visible - 1));
    }
  }
  return absl::OkStatus();
}

// Returns the slots of path `index` from its first token in scope on.
std::vector<int32_t> ScopedSlots(const TreePlan& plan, const Slots& slots, size_t index,
                                 TokenScope scope) {
  const int32_t first = scope == TokenScope::kPath ? 0 : plan.prefix_tokens[index];
  std::vector<int32_t> scoped;
  for (int32_t slot = plan.endpoints[index]; slot >= 0 && plan.grid.position_ids[slot] >= first;
       slot = slots.parent[slot]) {
    scoped.insert(scoped.begin(), slot);
  }
  return scoped;
}

void AppendDistributions(const TreePlan& plan, const Slots& slots,
                         const std::vector<int32_t>& scoped, const OutputSelection& outputs,
                         TokenOutputs* tokens) {
  for (const int32_t slot : scoped) {
    if (slots.parent[slot] < 0) {
      continue;
    }
    const uint64_t hash = slots.hash[slots.parent[slot]];
    const FakeDistribution distribution = DistributionOfHash(hash, outputs.temperature);
    if (outputs.token_logprobs) {
      tokens->logprobs.push_back(
          LogprobOfHash(hash, plan.grid.token_ids[slot], outputs.temperature));
    }
    if (outputs.entropy) {
      tokens->entropy.push_back(distribution.entropy);
    }
    if (outputs.vocab_range) {
      tokens->min_logit.push_back(distribution.min_logit);
      tokens->max_logit.push_back(distribution.max_logit);
    }
    if (outputs.token_ranks) {
      tokens->ranks.push_back(RankOfHash(hash, plan.grid.token_ids[slot]));
    }
    for (int32_t rank = 0; rank < outputs.top_logprobs; ++rank) {
      const auto [id, logprob] = TopOfHash(hash, rank, outputs.temperature);
      tokens->top_ids.push_back(id);
      tokens->top_logprobs.push_back(logprob);
    }
  }
}

// Returns the offsets of a part's entries.
TokenEntries EntriesOf(const TreePlan& plan, const OutputSelection& outputs, int32_t first) {
  TokenEntries entries;
  entries.offsets.push_back(0);
  for (size_t path = 0; path < plan.endpoints.size(); ++path) {
    const int32_t length = plan.grid.position_ids[plan.endpoints[path]] + 1;
    const int32_t begin =
        std::max(outputs.scope == TokenScope::kPath ? 0 : plan.prefix_tokens[path], first);
    entries.first_token.push_back(begin);
    entries.offsets.push_back(entries.offsets.back() + std::max(length - begin, 0));
  }
  return entries;
}

void AppendTokens(const TreePlan& plan, const Slots& slots, const OutputSelection& outputs,
                  PartOutput* output) {
  if (outputs.distributions()) {
    output->tokens.entries = EntriesOf(plan, outputs, 1);
  }
  if (outputs.values) {
    output->values.entries = EntriesOf(plan, outputs, 0);
  }
  for (size_t path = 0; path < plan.endpoints.size(); ++path) {
    const std::vector<int32_t> scoped = ScopedSlots(plan, slots, path, outputs.scope);
    AppendDistributions(plan, slots, scoped, outputs, &output->tokens);
    for (const int32_t slot : scoped) {
      if (outputs.values) {
        output->values.values.push_back(ValueOfHash(slots.hash[slot]));
      }
    }
  }
}

// Finds the paths that contain a token.
struct PoisonedPaths {
  const TreePlan& plan;
  const Slots& slots;
  int32_t token;

  bool Has(size_t path) const {
    for (int32_t slot = plan.endpoints[path]; slot >= 0; slot = slots.parent[slot]) {
      if (plan.grid.token_ids[slot] == token) {
        return true;
      }
    }
    return false;
  }
};

// Replaces the last number of the path's row by NaN; all rows of the list have the same size.
void CorruptRow(size_t path, size_t num_paths, std::vector<float>* list) {
  if (!list->empty()) {
    (*list)[(path + 1) * (list->size() / num_paths) - 1] = kNan;
  }
}

template <typename T>
void CorruptEntries(const TokenEntries& entries, size_t path, std::vector<T>* list) {
  if (!list->empty() && entries.offsets[path + 1] > entries.offsets[path]) {
    const size_t width = list->size() / static_cast<size_t>(entries.size());
    (*list)[static_cast<size_t>(entries.offsets[path + 1]) * width - 1] = kUnscored<T>;
  }
}

// Replaces one number of each output that a path lacks by NaN, as an overflow does.
void CorruptOutputs(PartOutput* output) {
  const size_t num_paths = output->finite.size();
  for (size_t path = 0; path < num_paths; ++path) {
    const OutputSet unscored = output->unscored[path];
    if ((unscored & BitOf(Output::kScores)) != 0) {
      CorruptRow(path, num_paths, &output->scores);
    }
    if ((unscored & BitOf(Output::kVectors)) != 0) {
      // A number with all bits set is a NaN in each type.
      const size_t row_bytes = output->vectors.size() / num_paths;
      output->vectors.replace(path * row_bytes, row_bytes, row_bytes, '\xff');
    }
    ForEachList([&](const auto& spec) {
      if ((unscored & BitOf(spec.output)) != 0) {
        CorruptEntries(spec.EntriesIn(*output), path, &spec.ListIn(*output));
      }
    });
  }
}

}  // namespace

FakeDistribution FakeDistributionAfter(absl::Span<const int32_t> context, float temperature) {
  return DistributionOfHash(HashPath(context), temperature);
}

float FakeLogprob(absl::Span<const int32_t> context, int32_t token, float temperature) {
  return LogprobOfHash(HashPath(context), token, temperature);
}

std::pair<int32_t, float> FakeTop(absl::Span<const int32_t> context, int32_t rank,
                                  float temperature) {
  return TopOfHash(HashPath(context), rank, temperature);
}

int32_t FakeRank(absl::Span<const int32_t> context, int32_t token) {
  return RankOfHash(HashPath(context), token);
}

float FakeValue(absl::Span<const int32_t> path) { return ValueOfHash(HashPath(path)); }

float FakeScore(absl::Span<const int32_t> path, int64_t label, int64_t version) {
  return ScoreOfHash(HashPath(path, version), label);
}

std::vector<float> FakeVector(absl::Span<const int32_t> path, int64_t hidden_size,
                              int64_t version) {
  return VectorOfHash(HashPath(path, version), hidden_size);
}

float FakeDecision(const std::vector<std::vector<float>>& vectors, size_t index) {
  float score = vectors[index][0];
  for (const std::vector<float>& vector : vectors) {
    score += vector[1];
  }
  return score;
}

ModelInfo FakeModelInfo() {
  ModelInfo info;
  info.name = "fake";
  info.fingerprint = "0123456789abcdef";
  info.architecture = "FakeForSequenceClassification";
  info.parameters = 1;
  info.hidden_size = 8;
  info.vocab_size = 1'000;
  info.max_path_tokens = 2'048;
  info.num_labels = 1;
  info.has_value_head = true;
  info.dtype = "float32";
  info.device = "cpu";
  info.vocabulary_hash = "00ff00ff00ff00ff";
  return info;
}

void FakeControls::PoisonToken(int32_t token) {
  MutexLock lock(&mutex);
  poison_token = token;
}

void FakeControls::PoisonOutputs(int32_t token, OutputSet outputs) {
  MutexLock lock(&mutex);
  output_poison_token = token;
  poisoned_outputs = outputs;
}

void FakeControls::LimitSlots(int64_t slots) {
  MutexLock lock(&mutex);
  max_slots = slots;
}

void FakeControls::FailForwards(int64_t first, int64_t count) {
  MutexLock lock(&mutex);
  first_without_memory = num_forwards + first;
  end_without_memory = first_without_memory + count;
}

void FakeControls::FailWith(absl::Status status) {
  MutexLock lock(&mutex);
  failure = std::move(status);
}

void FakeControls::FailBackend(Backend backend) {
  MutexLock lock(&mutex);
  failing_backend = backend;
}

void FakeControls::Pace(absl::Duration forward, absl::Duration slot) {
  MutexLock lock(&mutex);
  forward_time = forward;
  slot_time = slot;
}

int64_t FakeControls::forwards() const {
  MutexLock lock(&mutex);
  return num_forwards;
}

FakeRunner::FakeRunner(const ModelInfo& info, std::shared_ptr<FakeControls> controls)
    : info_(std::make_shared<const ModelInfo>(info)), controls_(std::move(controls)) {}

absl::StatusOr<PartOutput> FakeRunner::Run(const TreePlan& plan, const OutputSelection& outputs) {
  controls_->gate.WaitUntilOpen();
  const auto begin = std::chrono::steady_clock::now();
  int32_t poison_token = -1;
  int32_t output_poison_token = -1;
  OutputSet poisoned_outputs = 0;
  absl::Duration run_time;
  {
    MutexLock lock(&controls_->mutex);
    const int64_t forward = controls_->num_forwards++;
    run_time = controls_->forward_time + plan.computed_tokens() * controls_->slot_time;
    poison_token = controls_->poison_token;
    output_poison_token = controls_->output_poison_token;
    poisoned_outputs = controls_->poisoned_outputs;
    CANOPY_RETURN_IF_ERROR(controls_->failure);
    if (plan.backend == controls_->failing_backend) {
      return absl::FailedPreconditionError(
          absl::StrCat("the fake does not run ", BackendName(plan.backend)));
    }
    if (forward >= controls_->first_without_memory && forward < controls_->end_without_memory) {
      return absl::ResourceExhaustedError(absl::StrCat("no memory at forward ", forward));
    }
    if (controls_->max_slots > 0 && plan.computed_tokens() > controls_->max_slots) {
      return absl::ResourceExhaustedError(absl::StrCat(
          plan.computed_tokens(), " slots do not fit the fake device's ", controls_->max_slots));
    }
  }
  absl::SleepFor(run_time - absl::FromChrono(std::chrono::steady_clock::now() - begin));
  if (outputs.scores && info_->score_head == ScoreHead::kDecision) {
    return absl::InternalError("fake runner: a part of a question was asked for its scores");
  }
  CANOPY_ASSIGN_OR_RETURN(const Slots slots, WalkGrid(plan, poison_token, info_->version));
  CANOPY_RETURN_IF_ERROR(CheckEndpointPositions(plan));

  PartOutput output;
  for (const int32_t endpoint : plan.endpoints) {
    const bool finite = plan.backend == Backend::kPath
                            ? slots.poisoned[endpoint] == 0
                            : slots.row_poisoned[endpoint / plan.grid.columns] == 0;
    output.finite.push_back(finite ? 1 : 0);
    if (outputs.scores) {
      for (int64_t label = 0; label < info_->num_labels; ++label) {
        output.scores.push_back(finite ? ScoreOfHash(slots.hash[endpoint], label) : kNan);
      }
    }
    if (outputs.endpoints) {
      for (const float value : VectorOfHash(slots.hash[endpoint], info_->hidden_size)) {
        output.endpoints.push_back(finite ? value : kNan);
      }
    }
    if (outputs.vectors) {
      std::vector<float> vector = VectorOfHash(slots.hash[endpoint], info_->hidden_size);
      if (outputs.normalize) {
        Normalize(&vector);
      }
      if (!finite) {
        vector.assign(vector.size(), kNan);
      }
      AppendVector(vector, outputs.vector_type, &output.vectors);
    }
  }
  if (outputs.distributions() || outputs.values) {
    AppendTokens(plan, slots, outputs, &output);
  }
  if (output_poison_token >= 0) {
    PoisonedPaths poisoned = {plan, slots, output_poison_token};
    for (size_t path = 0; path < output.finite.size(); ++path) {
      output.unscored.push_back(poisoned.Has(path) ? poisoned_outputs & AskedOutputs(outputs) : 0);
    }
    CorruptOutputs(&output);
  }
  return output;
}

absl::StatusOr<std::vector<float>> FakeRunner::Decide(const DecisionInput& input) {
  if (info_->score_head != ScoreHead::kDecision) {
    return absl::InternalError("fake runner: no decision head");
  }
  const auto hidden = static_cast<size_t>(info_->hidden_size);
  std::vector<float> scores(input.finite.size(), kNan);
  for (size_t question = 0; question + 1 < input.question_offsets.size(); ++question) {
    std::vector<std::vector<float>> vectors;
    std::vector<size_t> paths;
    for (auto path = static_cast<size_t>(input.question_offsets[question]);
         path < static_cast<size_t>(input.question_offsets[question + 1]); ++path) {
      if (input.finite[path] != 0) {
        const absl::Span<const float> vector = input.endpoints.subspan(path * hidden, hidden);
        vectors.emplace_back(vector.begin(), vector.end());
        paths.push_back(path);
      }
    }
    for (size_t i = 0; i < paths.size(); ++i) {
      scores[paths[i]] = FakeDecision(vectors, i);
    }
  }
  return scores;
}

}  // namespace canopy::testing
