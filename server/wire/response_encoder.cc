#include "server/wire/response_encoder.h"

#include <algorithm>
#include <array>
#include <memory>
#include <numeric>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "absl/types/span.h"
#include "base/mutex.h"
#include "canopy/v1/scorer.pb.h"
#include "core/engine/decision.h"
#include "core/tree/outputs.h"
#include "core/tree/path_batch.h"
#include "google/protobuf/arena.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "google/protobuf/message.h"
#include "google/protobuf/wire_format_lite.h"
#include "grpcpp/support/slice.h"
#include "server/wire/kind_rules.h"
#include "server/wire/routing_message.h"

namespace canopy::server {
namespace {

using google::protobuf::internal::WireFormatLite;

v1::DType ToWire(VectorType type) {
  switch (type) {
    case VectorType::kFloat32:
      return v1::DTYPE_FLOAT32;
    case VectorType::kBFloat16:
      return v1::DTYPE_BFLOAT16;
    case VectorType::kFloat16:
      return v1::DTYPE_FLOAT16;
  }
  return v1::DTYPE_FLOAT32;
}

void SetScores(const ScoreResult& result, int32_t path, v1::CandidateResult* candidate) {
  const int64_t num_labels = result.model->num_labels;
  const float* scores = &result.scores[static_cast<size_t>(path * num_labels)];
  if (num_labels == 1) {
    candidate->set_score(scores[0]);
  } else {
    candidate->mutable_label_scores()->Add(scores, scores + num_labels);
  }
}

// The field of CandidateResult for each row of kLists. Null for the lists with their own encoding
// code.
using ListFields =
    std::array<const google::protobuf::FieldDescriptor*, std::tuple_size_v<decltype(kLists)>>;

const ListFields& FieldsOfLists() {
  static const ListFields all = [] {
    ListFields fields = {};
    size_t next = 0;
    ForEachList([&](const auto& spec) {
      fields[next++] = v1::CandidateResult::descriptor()->FindFieldByName(std::string(spec.field));
    });
    return fields;
  }();
  return all;
}

// Appends the entries of `path` in `list`, which has one element per token or is empty. Integers
// are uint32 on the wire.
template <typename T>
void AddEntries(const TokenEntries& entries, const std::vector<T>& list, int32_t path,
                const google::protobuf::FieldDescriptor* field, v1::CandidateResult* candidate) {
  if (list.empty()) {
    return;
  }
  using Number = std::conditional_t<std::is_same_v<T, float>, float, uint32_t>;
  // The function that protobuf recommends instead makes a virtual call per number.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
  google::protobuf::RepeatedField<Number>* numbers =
      v1::CandidateResult::GetReflection()->MutableRepeatedField<Number>(candidate, field);
#pragma GCC diagnostic pop
  numbers->Add(list.begin() + entries.offsets[path], list.begin() + entries.offsets[path + 1]);
}

void AddTopLogprobs(const TokenOutputs& tokens, int32_t path, v1::CandidateResult* candidate) {
  if (tokens.top_ids.empty()) {
    return;
  }
  const int64_t width = static_cast<int64_t>(tokens.top_ids.size()) / tokens.entries.size();
  const int64_t end = tokens.entries.offsets[path + 1];
  for (int64_t entry = tokens.entries.offsets[path]; entry < end; ++entry) {
    v1::TopLogprobs* top = candidate->add_top_logprobs();
    const auto ids = tokens.top_ids.begin() + entry * width;
    const auto logprobs = tokens.top_logprobs.begin() + entry * width;
    top->mutable_ids()->Add(ids, ids + width);
    top->mutable_logprobs()->Add(logprobs, logprobs + width);
  }
}

// Sets the per-token lists that the path does not lack.
void SetTokens(const ScoreResult& result, int32_t path, v1::CandidateResult* candidate) {
  const OutputSet unscored = result.unscored[path];
  if (!result.tokens.entries.offsets.empty()) {
    candidate->set_first_scored_token(
        static_cast<uint64_t>(result.tokens.entries.first_token[path]));
  }
  auto next = FieldsOfLists().begin();
  ForEachList([&](const auto& spec) {
    const google::protobuf::FieldDescriptor* field = *next++;
    if (field != nullptr && (unscored & BitOf(spec.output)) == 0) {
      AddEntries(spec.EntriesIn(result), spec.ListIn(result), path, field, candidate);
    }
  });
  if ((unscored & BitOf(Output::kTopLogprobs)) == 0) {
    AddTopLogprobs(result.tokens, path, candidate);
  }
  if (!candidate->token_logprobs().empty()) {
    // The sum is computed in double precision, so that it is as accurate for a long path as for a
    // short one.
    candidate->set_sum_logprob(static_cast<float>(std::accumulate(
        candidate->token_logprobs().begin(), candidate->token_logprobs().end(), 0.0)));
  }
}

// Returns false if the scores were computed only for the probabilities.
bool AnswersScores(const OutputsFields& outputs) {
  return outputs.asks(Output::kScores) || !outputs.asks(Output::kProbabilities);
}

// Sets the names of the outputs that the path lacks, in the order of Outputs' fields.
void SetUnscored(const OutputsFields& outputs, OutputSet unscored, v1::CandidateResult* candidate) {
  candidate->set_unscored_reason("non_finite");
  for (const OutputSpec& spec : kOutputs) {
    const bool is_derived = spec.computed != spec.output;
    const bool is_answered = is_derived                       ? outputs.asks(spec.output)
                             : spec.output == Output::kScores ? AnswersScores(outputs)
                                                              : true;
    if (is_answered && (unscored & BitOf(spec.computed)) != 0) {
      candidate->add_unscored_outputs(std::string(spec.name));
    }
  }
}

void SetAnswer(const Answer& answer, v1::QuestionResult* result) {
  if (const auto* boolean = std::get_if<BooleanAnswer>(&answer)) {
    result->mutable_boolean()->set_probability(boolean->probability);
    result->mutable_boolean()->set_value(boolean->value);
  } else if (const auto* choice = std::get_if<ChoiceAnswer>(&answer)) {
    result->mutable_choice()->set_index(static_cast<uint32_t>(choice->index));
    result->mutable_choice()->set_id(result->candidates(choice->index).id());
    result->mutable_choice()->set_probability(choice->probability);
    result->mutable_choice()->set_margin(choice->margin);
  } else if (const auto* score = std::get_if<ScoreAnswer>(&answer)) {
    result->mutable_score()->set_level(static_cast<uint32_t>(score->level));
    result->mutable_score()->set_expected(score->expected);
  }
}

// Sets the probabilities and the answer of a question whose candidates are in `result`. Sets
// nothing if a candidate has no score.
void SetDecision(QuestionKind kind, const KindTemperatures& temperatures,
                 absl::Span<const float> scores, v1::QuestionResult* result) {
  const std::vector<float> probabilities = Probabilities(scores, temperatures.Of(kind));
  if (probabilities.empty()) {
    return;
  }
  for (int i = 0; i < result->candidates_size(); ++i) {
    result->mutable_candidates(i)->set_probability(probabilities[i]);
  }
  result->mutable_distribution()->Add(probabilities.begin(), probabilities.end());
  SetAnswer(AnswerOf(kind, probabilities), result);
}

void FillResults(const EncodeInput& input, const ScoreResult& result, v1::ScoreResponse* response) {
  const PathBatch& batch = *input.request.job.batch;
  const DecodedQuestions& questions = input.request.questions;
  const OutputsFields& outputs = input.request.head.outputs;
  const bool has_scores = !result.scores.empty() && AnswersScores(outputs);
  response->mutable_results()->Reserve(batch.num_questions());
  for (int32_t question = 0; question < batch.num_questions(); ++question) {
    v1::QuestionResult* entry = response->add_results();
    entry->set_id(std::string(questions.question_ids[question].In(input.message)));
    const int32_t end = batch.question_offsets[question + 1];
    for (int32_t path = batch.question_offsets[question]; path < end; ++path) {
      v1::CandidateResult* candidate = entry->add_candidates();
      candidate->set_id(std::string(questions.candidate_ids[path].In(input.message)));
      candidate->set_tokens(static_cast<uint64_t>(batch.PathLength(question, path)));
      if (result.unscored[path] != 0) {
        SetUnscored(outputs, result.unscored[path], candidate);
      }
      if (result.finite[path] == 0) {
        continue;
      }
      if (has_scores && (result.unscored[path] & BitOf(Output::kScores)) == 0) {
        SetScores(result, path, candidate);
      }
      SetTokens(result, path, candidate);
    }
    if (outputs.asks(Output::kProbabilities)) {
      const int32_t begin = batch.question_offsets[question];
      SetDecision(ToQuestionKind(questions.kinds[question]), result.model->temperatures,
                  absl::MakeConstSpan(result.scores).subspan(begin, end - begin), entry);
    }
  }
}

// Returns a slice that owns `data`.
grpc::Slice MakeSlice(std::string data) {
  auto owner = std::make_unique<std::string>(std::move(data));
  char* begin = owner->data();
  const size_t size = owner->size();
  HandOver(owner.get());
  const auto destroy = [](void* string) {
    TakeOver(string);
    delete static_cast<std::string*>(string);
  };
  return grpc::Slice(begin, size, destroy, owner.release());
}

// Returns the bytes of ScoreResponse.vectors before the tensor's elements, which follow.
std::string VectorsHeader(const OutputSelection& outputs, int64_t num_paths, int64_t hidden_size,
                          size_t data_bytes) {
  v1::Tensor tensor;
  tensor.set_dtype(ToWire(outputs.vector_type));
  tensor.add_shape(static_cast<uint64_t>(num_paths));
  tensor.add_shape(static_cast<uint64_t>(hidden_size));
  std::string data_header;
  {
    google::protobuf::io::StringOutputStream stream(&data_header);
    google::protobuf::io::CodedOutputStream coded(&stream);
    coded.WriteTag(WireFormatLite::MakeTag(v1::Tensor::kDataFieldNumber,
                                           WireFormatLite::WIRETYPE_LENGTH_DELIMITED));
    coded.WriteVarint32(static_cast<uint32_t>(data_bytes));
  }
  const std::string shape = tensor.SerializeAsString();
  std::string header;
  {
    google::protobuf::io::StringOutputStream stream(&header);
    google::protobuf::io::CodedOutputStream coded(&stream);
    coded.WriteTag(WireFormatLite::MakeTag(v1::ScoreResponse::kVectorsFieldNumber,
                                           WireFormatLite::WIRETYPE_LENGTH_DELIMITED));
    coded.WriteVarint32(static_cast<uint32_t>(shape.size() + data_header.size() + data_bytes));
    coded.WriteString(shape);
    coded.WriteString(data_header);
  }
  return header;
}

v1::Stats RunStats(const ScoreResult& result, const RequestTimes& times) {
  v1::Stats stats = PlanStats(result.counts, result.route);
  stats.set_computed_tokens(static_cast<uint64_t>(result.computed_tokens));
  stats.set_parts(static_cast<uint64_t>(result.parts));
  stats.set_batch_requests(static_cast<uint64_t>(result.batch_requests));
  stats.set_decode_ms(times.decode_ms);
  stats.set_queue_ms(result.times.queue_ms);
  stats.set_plan_ms(result.times.plan_ms);
  stats.set_device_ms(result.times.device_ms);
  stats.set_encode_queue_ms(times.encode_queue_ms);
  return stats;
}

}  // namespace

v1::Stats PlanStats(const PlanCounts& counts, const Route& route) {
  v1::Stats stats;
  stats.set_backend(ToWire(route.backend));
  stats.set_policy(ToWire(route.policy));
  stats.set_reason(std::string(ReasonName(route.reason)));
  stats.set_layout(std::string(LayoutName(route.layout)));
  stats.set_path_tokens(static_cast<uint64_t>(counts.path_tokens));
  stats.set_input_tokens(static_cast<uint64_t>(counts.input_tokens));
  stats.set_unique_tokens(static_cast<uint64_t>(counts.unique_tokens));
  stats.set_forest_tokens(static_cast<uint64_t>(counts.forest_tokens));
  stats.set_mask_bytes(static_cast<uint64_t>(counts.mask_bytes));
  stats.set_segment_groups(static_cast<uint64_t>(counts.segment_groups));
  return stats;
}

// The message is encoded in pieces, because the fields of one message may be spread over several
// serialised messages: results, then the vectors without a copy, then the stats, whose times
// include the encoding of the earlier pieces.
EncodedResponse EncodeScoreResponse(const EncodeInput& input, ScoreResult result) {
  const Stopwatch encoding;
  std::vector<grpc::Slice> slices;
  {
    google::protobuf::Arena arena;
    auto* response = google::protobuf::Arena::CreateMessage<v1::ScoreResponse>(&arena);
    response->set_request_id(std::string(input.request.head.request_id));
    response->set_model(result.model->name);
    response->set_model_version(static_cast<uint64_t>(result.model->version));
    response->set_model_fingerprint(result.model->fingerprint);
    FillResults(input, result, response);
    slices.push_back(MakeSlice(response->SerializeAsString()));
  }
  v1::ScoreResponse tail;
  *tail.mutable_stats() = RunStats(result, input.times);
  EncodedResponse encoded;
  encoded.unscored_paths = std::count_if(result.unscored.begin(), result.unscored.end(),
                                         [](OutputSet unscored) { return unscored != 0; });
  if (!result.vectors.empty()) {
    slices.push_back(MakeSlice(VectorsHeader(input.request.job.outputs,
                                             static_cast<int64_t>(result.finite.size()),
                                             result.model->hidden_size, result.vectors.size())));
    slices.push_back(MakeSlice(std::move(result.vectors)));
  }
  encoded.encode_ms = encoding.ElapsedMs();
  encoded.total_ms = input.times.total.ElapsedMs();
  tail.mutable_stats()->set_encode_ms(encoded.encode_ms);
  tail.mutable_stats()->set_total_ms(encoded.total_ms);
  slices.push_back(MakeSlice(tail.SerializeAsString()));
  encoded.bytes = grpc::ByteBuffer(slices.data(), slices.size());
  return encoded;
}

}  // namespace canopy::server
