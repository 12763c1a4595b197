// A server with small limits and a request within them, for tests of refusals.
#ifndef TESTS_INTEGRATION_SMALL_REQUESTS_H_
#define TESTS_INTEGRATION_SMALL_REQUESTS_H_

#include "tests/integration/test_server.h"

namespace canopy::testing {

// The limits are small, so that requests that exceed them are small.
inline server::ServerOptions SmallLimits() {
  server::ServerOptions options = FakeServerOptions();
  options.calls.request.max_questions = 4;
  options.calls.request.max_candidates = 4;
  options.calls.request.max_paths = 8;
  options.calls.request.max_tokens = 3'000;
  options.calls.request.max_mask_bytes = 1'000;
  options.connections.max_request_bytes = 100'000;
  return options;
}

// Returns a request with two questions, of two and one candidates.
inline v1::ScoreRequest ValidRequest() {
  v1::ScoreRequest request;
  AddQuestion(&request, {1, 2}, {{3}, {4}});
  AddQuestion(&request, {5}, {{6}});
  return request;
}

}  // namespace canopy::testing

#endif  // TESTS_INTEGRATION_SMALL_REQUESTS_H_
