// A first request: which of two continuations does the model prefer?
//   bazel run //client/examples:score_example -- 127.0.0.1:50051
#include <iostream>
#include <memory>
#include <string>

#include "client/client.h"

namespace {

void AddCandidate(const std::string& id, std::initializer_list<uint32_t> tokens,
                  canopy::v1::Question* question) {
  canopy::v1::Candidate* candidate = question->add_candidates();
  candidate->set_id(id);
  candidate->mutable_tokens()->mutable_ids()->Add(tokens.begin(), tokens.end());
}

}  // namespace

int main(int argc, char** argv) {
  canopy::client::Client::Options options;
  if (argc > 1) {
    options.target = argv[1];
  }
  const auto client = canopy::client::Client::Create(options);
  if (!client.ok()) {
    std::cerr << client.status() << "\n";
    return 2;
  }

  // One question: a prefix that is computed once, and the candidates that continue it.
  canopy::v1::ScoreRequest request;
  canopy::v1::Question* question = request.add_questions();
  question->set_id("first");
  for (const uint32_t token : {10, 11, 12}) {
    question->mutable_prefix()->add_ids(token);
  }
  AddCandidate("short", {20}, question);
  AddCandidate("long", {20, 21, 22}, question);
  request.mutable_outputs()->set_scores(true);

  const absl::StatusOr<canopy::v1::ScoreResponse> response = (*client)->Score(request);
  if (!response.ok()) {
    std::cerr << response.status() << "\n";
    return 1;
  }
  for (const canopy::v1::CandidateResult& candidate : response->results(0).candidates()) {
    std::cout << candidate.id() << ": " << candidate.score() << "\n";
  }
  return 0;
}
