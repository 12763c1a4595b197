#include "client/load/traffic/request_pool.h"

#include <algorithm>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "client/codec.h"
#include "client/json_lines.h"
#include "client/path_tree.h"
#include "client/token_ids.h"
#include "nlohmann/json.hpp"

namespace canopy::client {
namespace {

using Json = nlohmann::json;

constexpr size_t kMaxKeyBytes = 40;              // an error text shows at most this part of a key
constexpr int64_t kMaxAtMs = 30LL * 86'400'000;  // the limit of --duration

absl::Status CheckLength(const Shape& shape, const PoolOptions& options) {
  const auto longest = static_cast<uint64_t>(MaxPathTokens(shape));
  if (longest > options.max_path_tokens) {
    return absl::InvalidArgumentError(absl::StrCat("shape ", shape.name, ": paths of ", longest,
                                                   " tokens exceed the model's max_path_tokens ",
                                                   options.max_path_tokens));
  }
  return absl::OkStatus();
}

// One line of a trace.
class TraceLine {
 public:
  // Appends the line's questions to `request` and sets the name of its shape.
  static absl::Status Read(const Json& json, const PoolOptions& options, std::mt19937_64* random,
                           v1::ScoreRequest* request, std::string* shape, absl::Duration* at) {
    if (!json.is_object()) {
      return absl::InvalidArgumentError("not a JSON object");
    }
    for (const auto& [key, value] : json.items()) {
      if (key != "at_ms" && key != "shape" && key != "questions") {
        return absl::InvalidArgumentError(
            absl::StrCat("unknown key '", absl::CHexEscape(key.substr(0, kMaxKeyBytes)),
                         "'; a line has at_ms and shape, or at_ms and questions"));
      }
    }
    const auto at_ms = json.find("at_ms");
    if (at_ms == json.end() || !at_ms->is_number() || !(at_ms->get<double>() >= 0) ||
        at_ms->get<double>() > kMaxAtMs) {
      return absl::InvalidArgumentError(absl::StrCat(
          "at_ms must be a number of milliseconds from 0 to ", kMaxAtMs, " (30 days)"));
    }
    *at = absl::Milliseconds(at_ms->get<double>());
    if (json.contains("shape") == json.contains("questions")) {
      return absl::InvalidArgumentError("either shape or questions is needed");
    }
    return json.contains("shape") ? ReadShape(json["shape"], options, random, request, shape)
                                  : ReadQuestions(json["questions"], request, shape);
  }

 private:
  static absl::Status ReadShape(const Json& json, const PoolOptions& options,
                                std::mt19937_64* random, v1::ScoreRequest* request,
                                std::string* shape) {
    if (!json.is_string()) {
      return absl::InvalidArgumentError(
          absl::StrCat("shape must be a string, not ", json.type_name()));
    }
    const absl::StatusOr<Shape> parsed = ParseShape(json.get_ref<const std::string&>());
    if (!parsed.ok()) {
      return parsed.status();
    }
    if (absl::Status status = CheckLength(*parsed, options); !status.ok()) {
      return status;
    }
    *shape = parsed->name;
    AddQuestions(*parsed, options.vocab_size, random, request);
    return absl::OkStatus();
  }

  static absl::Status ReadQuestions(const Json& json, v1::ScoreRequest* request,
                                    std::string* shape) {
    if (!json.is_array() || json.empty()) {
      return absl::InvalidArgumentError("questions must be a list that is not empty");
    }
    *shape = "trace";
    for (size_t i = 0; i < json.size(); ++i) {
      absl::StatusOr<v1::Question> question = ReadQuestion(json[i]);
      if (!question.ok()) {
        return absl::InvalidArgumentError(
            absl::StrCat("questions[", i, "]: ", question.status().message()));
      }
      *request->add_questions() = *std::move(question);
    }
    return absl::OkStatus();
  }
};

}  // namespace

absl::StatusOr<RequestPool> RequestPool::FromMix(const std::vector<WeightedShape>& mix,
                                                 const PoolOptions& options) {
  RequestPool pool;
  pool.requests_per_shape_ = static_cast<size_t>(options.requests_per_shape);
  std::mt19937_64 random(options.seed);
  double weight = 0;
  for (const WeightedShape& weighted : mix) {
    if (absl::Status status = CheckLength(weighted.shape, options); !status.ok()) {
      return status;
    }
    weight += weighted.weight;
    pool.cumulative_weights_.push_back(weight);
    for (int i = 0; i < options.requests_per_shape; ++i) {
      v1::ScoreRequest request = options.head;
      AddQuestions(weighted.shape, options.vocab_size, &random, &request);
      pool.Add(weighted.shape.name, std::move(request));
    }
  }
  return pool;
}

absl::StatusOr<RequestPool> RequestPool::FromTrace(std::istream& input, const PoolOptions& options,
                                                   std::vector<absl::Duration>* instants) {
  RequestPool pool;
  std::mt19937_64 random(options.seed);
  const absl::Status read = ReadJsonLines(input, [&](const Json& document) {
    v1::ScoreRequest request = options.head;
    std::string shape;
    absl::Duration at;
    absl::Status status = TraceLine::Read(document, options, &random, &request, &shape, &at);
    if (status.ok() && !instants->empty() && at < instants->back()) {
      status = absl::InvalidArgumentError("at_ms is before that of the line above");
    }
    if (status.ok()) {
      instants->push_back(at);
      pool.Add(shape, std::move(request));
    }
    return status;
  });
  if (!read.ok()) {
    return read;
  }
  if (pool.requests_.empty()) {
    return absl::InvalidArgumentError("no requests");
  }
  return pool;
}

void RequestPool::Add(absl::string_view shape, v1::ScoreRequest request) {
  PooledRequest pooled;
  pooled.shape = std::string(shape);
  pooled.questions = static_cast<uint64_t>(request.questions_size());
  for (const v1::Question& question : request.questions()) {
    pooled.candidates += static_cast<uint64_t>(question.candidates_size());
    for (const v1::Candidate& candidate : question.candidates()) {
      pooled.input_tokens += NumPathTokens(question, candidate);
    }
    const v1::QuestionTree tree = BuildPathTree(question);
    for (const v1::TreeNode& node : tree.nodes()) {
      pooled.unique_tokens += static_cast<uint64_t>(node.tokens_size());
    }
  }
  pooled.bytes = request.SerializeAsString();
  pooled.request = std::move(request);
  requests_.push_back(std::move(pooled));
}

size_t RequestPool::Draw(std::mt19937_64* random) const {
  if (cumulative_weights_.empty()) {
    return (*random)() % requests_.size();
  }
  const double point =
      static_cast<double>((*random)() >> 11) * 0x1p-53 * cumulative_weights_.back();
  const auto shape = static_cast<size_t>(
      std::upper_bound(cumulative_weights_.begin(), cumulative_weights_.end() - 1, point) -
      cumulative_weights_.begin());
  return shape * requests_per_shape_ + (*random)() % requests_per_shape_;
}

std::string RequestIdField(absl::string_view request_id) {
  v1::ScoreRequest only;
  only.set_request_id(std::string(request_id));
  return only.SerializeAsString();
}

}  // namespace canopy::client
