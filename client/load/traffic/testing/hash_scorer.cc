#include "client/load/traffic/testing/hash_scorer.h"

#include <cstdint>
#include <utility>

#include "client/load/traffic/shapes.h"
#include "client/token_ids.h"

namespace canopy::client {

v1::ScoreResponse HashAnswer(const v1::ScoreRequest& request) {
  v1::ScoreResponse answer;
  answer.set_request_id(request.request_id());
  answer.set_model(request.model());
  answer.set_model_version(1);
  for (const v1::Question& question : request.questions()) {
    v1::QuestionResult* result = answer.add_results();
    result->set_id(question.id());
    for (const v1::Candidate& candidate : question.candidates()) {
      uint32_t hash = 2'166'136'261U;
      const uint64_t num_tokens = NumPathTokens(question, candidate);
      for (uint64_t i = 0; i < num_tokens; ++i) {
        hash = (hash ^ PathTokenAt(question, candidate, i)) * 16'777'619U;
      }
      v1::CandidateResult* scored = result->add_candidates();
      scored->set_id(candidate.id());
      scored->set_tokens(num_tokens);
      scored->set_score(static_cast<float>(hash >> 8) / static_cast<float>(1 << 24));
    }
  }
  answer.mutable_stats()->set_backend(
      request.routing().backend() == v1::BACKEND_PATH ? v1::BACKEND_PATH : v1::BACKEND_DENSE);
  answer.mutable_stats()->set_computed_tokens(1);
  answer.mutable_stats()->set_device_ms(0.25);
  answer.mutable_stats()->set_total_ms(0.5);
  return answer;
}

v1::Model HashModel() {
  v1::Model model;
  model.set_name("hash");
  model.set_version(1);
  model.set_fingerprint("0123456789abcdef");
  model.set_vocab_size(1'000);
  model.set_max_path_tokens(2'048);
  return model;
}

RequestPool HashPool() {
  const v1::Model model = HashModel();
  PoolOptions options;
  options.requests_per_shape = 6;
  options.vocab_size = model.vocab_size();
  options.max_path_tokens = model.max_path_tokens();
  auto pool = RequestPool::FromMix(*ParseMix("2x3:5+4"), options);
  for (size_t i = 0; i < pool->size(); ++i) {
    pool->at(i).expected = HashAnswer(pool->at(i).request);
  }
  return *std::move(pool);
}

}  // namespace canopy::client
