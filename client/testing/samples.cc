#include "client/testing/samples.h"

#include <string>

#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace canopy::client {
namespace {

template <typename Message>
Message Parse(const std::string& text) {
  Message message;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &message)) << text;
  return message;
}

constexpr char kRequest[] = R"(
  request_id: "r1"
  model: "demo"
  questions {
    id: "color" kind: QUESTION_KIND_CHOICE
    prefix { ids: [5, 6] }
    candidates { id: "red" tokens { ids: [7, 8] } }
    candidates { id: "blue" tokens { raw: "\t\000\000\000" } }
    candidates { }
  }
  questions {
    id: "odd" kind: QUESTION_KIND_BOOLEAN
    candidates { id: "yes" tokens { ids: [1, 2, 3] } }
    candidates { id: "no" tokens { ids: [1, 4] } }
  }
  outputs {
    vectors: true scores: true probabilities: true token_logprobs: true entropy: true
    vocab_range: true values: true top_logprobs: 2
  })";

// The path of `red` is 5 6 7 8: two tokens are in scope, from index 2. The path of `yes` is 1 2 3:
// its first token has no distribution, and all three have a value.
constexpr char kResponse[] = R"(
  request_id: "r1" model: "demo" model_version: 3 model_fingerprint: "9f86d081884c7d65"
  results {
    id: "color"
    candidates {
      id: "red" score: 0.5 probability: 0.11 tokens: 4 first_scored_token: 2
      token_logprobs: [-1, -0.5] sum_logprob: -1.5 entropy: [2, 1] min_logit: [-3, -4]
      max_logit: [3, 4] values: [0.1, 0.2]
      top_logprobs { ids: [7, 9] logprobs: [-1, -1.5] }
      top_logprobs { ids: [8] logprobs: [-0.5] }
    }
    candidates {
      id: "blue" score: 2.5 probability: 0.81 tokens: 3 first_scored_token: 2
      token_logprobs: [-0.25] sum_logprob: -0.25 entropy: [2] min_logit: [-3] max_logit: [3]
      values: [0.7] top_logprobs { ids: [9, 7] logprobs: [-0.25, -1] }
    }
    candidates { score: -0.125 probability: 0.08 tokens: 2 first_scored_token: 2 }
    choice { index: 1 id: "blue" probability: 0.81 margin: 0.7 }
    distribution: [0.11, 0.81, 0.08]
  }
  results {
    id: "odd"
    candidates {
      id: "yes" score: 1 probability: 0.75 tokens: 3 first_scored_token: 1
      token_logprobs: [-1, -2] sum_logprob: -3 entropy: [1, 2] min_logit: [-1, -2]
      max_logit: [1, 2] values: [0.3, 0.2, 0.1]
      top_logprobs { ids: [2] logprobs: [-1] } top_logprobs { ids: [3] logprobs: [-2] }
    }
    candidates {
      id: "no" score: -0.1 probability: 0.25 tokens: 2 first_scored_token: 1
      token_logprobs: [-4] sum_logprob: -4 entropy: [1] min_logit: [-1] max_logit: [1]
      values: [0.3, 0.9] top_logprobs { ids: [2, 4] logprobs: [-1, -4] }
    }
    boolean { probability: 0.75 value: true }
    distribution: [0.75, 0.25]
  }
  vectors {
    dtype: DTYPE_FLOAT32 shape: [5, 2]
    data: "\000\000\000\000\000\000\200\077\000\000\000\000\000\000\000\100"
          "\000\000\200\077\000\000\000\000\000\000\100\100\000\000\200\100"
          "\000\000\000\277\000\000\000\077"
  }
  stats {
    backend: BACKEND_SEGMENTED policy: POLICY_REFERENCE layout: "flat" path_tokens: 20
    input_tokens: 14 unique_tokens: 9 forest_tokens: 9 computed_tokens: 7 cached_tokens: 2
    mask_bytes: 324 segment_groups: 2 parts: 1 batch_requests: 1 decode_ms: 0.1 queue_ms: 0.2
    plan_ms: 0.3 device_ms: 4 encode_queue_ms: 0.02 encode_ms: 0.05 total_ms: 4.67
  })";

constexpr char kExplanation[] = R"(
  stats {
    backend: BACKEND_PATH policy: POLICY_REFERENCE reason: "small_batch" layout: "flat"
    path_tokens: 20 input_tokens: 14 unique_tokens: 9 plan_ms: 0.5 total_ms: 0.5
  }
  questions {
    id: "color"
    nodes { parent: -1 start_depth: 0 tokens: [5, 6] candidates: 2 }
    nodes { parent: 0 start_depth: 2 tokens: [7, 8] candidates: 0 }
    nodes { parent: 0 start_depth: 2 tokens: 9 candidates: 1 }
  }
  questions {
    id: "odd"
    nodes { parent: -1 start_depth: 0 tokens: 1 }
    nodes { parent: 0 start_depth: 1 tokens: [2, 3] candidates: 0 }
    nodes { parent: 0 start_depth: 1 tokens: 4 candidates: 1 }
  }
  svg: "<svg/>"
  work {
    outputs: ["scores", "token_logprobs"] computed_tokens: 14 endpoint_rows: 5
    distribution_rows: 6 value_rows: 0 answer_bytes: 24
  }
  forecasts { backend: BACKEND_PATH predicted_ms: 1.5 forwards: 1 computed_tokens: 20 }
  forecasts { backend: BACKEND_DENSE predicted_ms: 2.25 forwards: 1 computed_tokens: 9 })";

constexpr char kModel[] = R"(
  name: "demo" version: 3 fingerprint: "9f86d081884c7d65" architecture: "Qwen3ForCausalLM"
  parameters: 1234567 hidden_size: 64 vocab_size: 259 max_path_tokens: 2048
  heads: ["vectors", "reward"] dtype: "float32" device: "cpu" support: "tree"
  default_policy: POLICY_REFERENCE
  limits { key: "max_questions" value: 4096 } limits { key: "max_paths" value: 65536 }
  vocabulary_hash: "" build: "0.1" num_labels: 1 pooling: "last" folder_normalizes: true
  pad_token: 258 token_forms: ["ids", "raw", "raw64"])";

}  // namespace

v1::ScoreRequest SampleRequest() { return Parse<v1::ScoreRequest>(kRequest); }

v1::ScoreResponse SampleResponse() { return Parse<v1::ScoreResponse>(kResponse); }

v1::ScoreResponse UnscoredResponse() {
  v1::ScoreResponse response = SampleResponse();
  v1::QuestionResult* color = response.mutable_results(0);
  color->clear_answer();
  color->clear_distribution();
  for (v1::CandidateResult& candidate : *color->mutable_candidates()) {
    candidate.clear_probability();
  }
  v1::CandidateResult red;
  red.set_id("red");
  red.set_tokens(4);
  red.set_unscored_reason("non_finite");
  *color->mutable_candidates(0) = red;
  // Sets the first row to two NaNs.
  response.mutable_vectors()->mutable_data()->replace(0, 8,
                                                      std::string("\0\0\xC0\x7F\0\0\xC0\x7F", 8));
  return response;
}

v1::ExplainResponse SampleExplanation() { return Parse<v1::ExplainResponse>(kExplanation); }

v1::Model SampleModel() { return Parse<v1::Model>(kModel); }

}  // namespace canopy::client
