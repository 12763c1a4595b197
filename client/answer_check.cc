#include "client/answer_check.h"

#include <algorithm>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "client/candidate_check.h"
#include "client/mismatch.h"
#include "client/output_fields.h"
#include "client/tensor.h"
#include "client/tree_check.h"
#include "client/unscored.h"

namespace canopy::client {
namespace {

absl::Status Wrong(const absl::Status& mismatch) {
  return mismatch.ok() ? mismatch
                       : absl::DataLossError(
                             absl::StrCat("wrong answer from the server: ", mismatch.message()));
}

// Checks the answer that a kind of question gets if every candidate has a probability.
absl::Status CheckAnswer(const v1::Question& question, const v1::QuestionResult& result) {
  const auto num_candidates = static_cast<uint32_t>(question.candidates_size());
  switch (question.kind()) {
    case v1::QUESTION_KIND_BOOLEAN:
      return result.has_boolean() ? absl::OkStatus() : Mismatch(".boolean is missing");
    case v1::QUESTION_KIND_CHOICE: {
      const uint32_t index = result.choice().index();
      const bool names_candidate =
          result.has_choice() && index < num_candidates &&
          result.choice().id() == question.candidates(static_cast<int>(index)).id();
      return names_candidate ? absl::OkStatus()
                             : Mismatch(".choice is missing or names no candidate");
    }
    case v1::QUESTION_KIND_SCORE: {
      const bool is_level = result.has_score() && result.score().level() < num_candidates;
      return is_level ? absl::OkStatus() : Mismatch(".score is missing or names no level");
    }
    default:
      return absl::OkStatus();
  }
}

absl::Status CheckProbabilities(const v1::Question& question, const v1::QuestionResult& result) {
  bool all_scored = true;
  for (const v1::CandidateResult& candidate : result.candidates()) {
    all_scored = all_scored && !Lacks(candidate, "scores") && !Lacks(candidate, "probabilities");
  }
  if (!all_scored) {
    return result.answer_case() == v1::QuestionResult::ANSWER_NOT_SET
               ? absl::OkStatus()
               : Mismatch(" has an answer beside an unscored candidate");
  }
  for (int i = 0; i < result.candidates_size(); ++i) {
    if (!result.candidates(i).has_probability()) {
      return At(".candidates", i, Mismatch(".probability is missing"));
    }
  }
  return FirstError(
      {result.distribution().empty()
           ? absl::OkStatus()
           : CheckCount(".distribution", result.distribution_size(), question.candidates_size()),
       CheckFinite(".distribution", result.distribution()),
       CheckFinite(".boolean", {result.boolean().probability()}),
       CheckFinite(".choice", {result.choice().probability(), result.choice().margin()}),
       CheckFinite(".score", {result.score().expected()}), CheckAnswer(question, result)});
}

absl::Status CheckQuestion(const v1::Question& question, const v1::Outputs& outputs,
                           const v1::QuestionResult& result) {
  if (result.id() != question.id()) {
    return Mismatch(".id is not the question's");
  }
  absl::Status status =
      CheckCount(".candidates", result.candidates_size(), question.candidates_size());
  for (int i = 0; status.ok() && i < question.candidates_size(); ++i) {
    status = At(".candidates", i,
                CheckCandidate(question, question.candidates(i), outputs, result.candidates(i)));
  }
  return status.ok() && outputs.probabilities() ? CheckProbabilities(question, result) : status;
}

// Checks that there is one row per candidate, of the requested element type.
absl::Status CheckVectorShape(const v1::Tensor& vectors, const v1::Outputs& outputs,
                              uint64_t num_candidates) {
  if (vectors.dtype() != outputs.vector_dtype()) {
    return Mismatch("vectors.dtype: ", static_cast<int>(vectors.dtype()), " instead of ",
                    static_cast<int>(outputs.vector_dtype()));
  }
  if (vectors.shape_size() != 2 || vectors.shape(0) != num_candidates || vectors.shape(1) == 0) {
    return Mismatch("vectors.shape is not [", num_candidates, ", hidden]");
  }
  // The check divides, because a multiplication could overflow for a hostile shape.
  const uint64_t row_bytes = vectors.data().size() / num_candidates;
  const uint64_t element_bytes = BytesPerElement(vectors.dtype());
  const bool fits = element_bytes > 0 && vectors.data().size() % num_candidates == 0 &&
                    row_bytes % element_bytes == 0 && row_bytes / element_bytes == vectors.shape(1);
  return fits ? absl::OkStatus()
              : Mismatch("vectors.data: ", vectors.data().size(), " bytes do not hold [",
                         num_candidates, ", ", vectors.shape(1), "]");
}

// Checks that the rows of the candidates that have a vector are finite.
absl::Status CheckVectorRows(const v1::ScoreResponse& response) {
  const v1::Tensor& vectors = response.vectors();
  const uint64_t row_bytes = vectors.shape(1) * BytesPerElement(vectors.dtype());
  const absl::string_view data = vectors.data();
  uint64_t row = 0;
  for (const v1::QuestionResult& question : response.results()) {
    for (const v1::CandidateResult& candidate : question.candidates()) {
      if (!Lacks(candidate, "vectors") &&
          !AllFinite(data.substr(row * row_bytes, row_bytes), vectors.dtype())) {
        return At("vectors", static_cast<int>(row), Mismatch(" is not finite without a reason"));
      }
      ++row;
    }
  }
  return absl::OkStatus();
}

absl::Status CheckEnvelope(const v1::ScoreRequest& request, const v1::ScoreResponse& response) {
  if (response.request_id() != request.request_id()) {
    return Mismatch("request_id is not the request's");
  }
  if (!request.model().empty() && response.model() != request.model()) {
    return Mismatch("model is not the one asked for");
  }
  if (response.model_version() < request.min_model_version()) {
    return Mismatch("model_version: ", response.model_version(), " is older than ",
                    request.min_model_version());
  }
  return CheckCount("results", response.results_size(), request.questions_size());
}

// Empty Outputs request scores or vectors, whichever the model has; the answer must contain one.
bool NothingAsked(const v1::Outputs& outputs) {
  return std::none_of(OutputFields().begin(), OutputFields().end(),
                      [&outputs](const Field* output) { return Asks(outputs, *output); });
}

}  // namespace

absl::Status CheckScoreResponse(const v1::ScoreRequest& request,
                                const v1::ScoreResponse& response) {
  absl::Status status = CheckEnvelope(request, response);
  v1::Outputs outputs = request.outputs();
  if (NothingAsked(outputs)) {
    outputs.set_scores(!response.has_vectors());
  }
  uint64_t num_candidates = 0;
  for (int i = 0; status.ok() && i < request.questions_size(); ++i) {
    num_candidates += request.questions(i).candidates_size();
    status = At("results", i, CheckQuestion(request.questions(i), outputs, response.results(i)));
  }
  if (status.ok() && num_candidates > 0 && (outputs.vectors() || response.has_vectors())) {
    status = CheckVectorShape(response.vectors(), outputs, num_candidates);
    if (status.ok()) {
      status = CheckVectorRows(response);
    }
  }
  return Wrong(status);
}

absl::Status CheckExplainResponse(const v1::ExplainRequest& request,
                                  const v1::ExplainResponse& response) {
  const v1::ScoreRequest& asked = request.request();
  absl::Status status = CheckCount("questions", response.questions_size(), asked.questions_size());
  for (int i = 0; status.ok() && i < asked.questions_size(); ++i) {
    status = At("questions", i, CheckTree(asked.questions(i), response.questions(i)));
  }
  if (status.ok() && request.svg() && response.svg().empty()) {
    status = Mismatch("svg is missing");
  }
  return Wrong(status);
}

absl::Status CheckLoadedModel(const v1::LoadWeightsRequest& request, const v1::Model& model) {
  v1::GetModelRequest same_model;
  same_model.set_name(request.model());
  absl::Status status = CheckModel(same_model, model);
  const std::string& expected = request.expected_fingerprint();
  if (status.ok() && !expected.empty() && model.fingerprint() != expected) {
    status = Wrong(Mismatch("fingerprint is not the one expected"));
  }
  return status;
}

absl::Status CheckModel(const v1::GetModelRequest& request, const v1::Model& model) {
  const bool right =
      !model.name().empty() && (request.name().empty() || model.name() == request.name());
  return Wrong(right ? absl::OkStatus() : Mismatch("name is not the model asked for"));
}

}  // namespace canopy::client
