#include "client/load/traffic/expected_answers.h"

#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "client/enum_names.h"

namespace canopy::client {

absl::Status ExpectAnswers(Client* client, RequestPool* pool) {
  for (size_t i = 0; i < pool->size(); ++i) {
    v1::ScoreRequest request = pool->at(i).request;
    request.mutable_routing()->Clear();
    request.mutable_routing()->set_backend(v1::BACKEND_PATH);
    absl::StatusOr<v1::ScoreResponse> response = client->Score(request);
    if (!response.ok()) {
      return response.status();
    }
    if (response->stats().backend() != v1::BACKEND_PATH) {
      return absl::FailedPreconditionError(absl::StrCat(
          "the server ran ", EnumName(response->stats().backend()), " where path was asked for"));
    }
    pool->at(i).expected = *std::move(response);
  }
  return absl::OkStatus();
}

}  // namespace canopy::client
