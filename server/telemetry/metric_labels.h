// The closed sets of label values, and the index of a value in its set.
#ifndef SERVER_TELEMETRY_METRIC_LABELS_H_
#define SERVER_TELEMETRY_METRIC_LABELS_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "core/tree/route.h"
#include "grpcpp/support/status_code_enum.h"

namespace canopy::server {

// The RPCs of canopy.v1.Scorer, and LoadWeights of canopy.v1.Admin.
enum class Method { kScore, kScoreStream, kExplain, kGetModel, kListModels, kLoadWeights };

std::vector<std::string> MethodNames();
absl::string_view MethodName(Method method);

// The gRPC codes that the server returns; any other code counts as UNKNOWN.
std::vector<std::string> CodeNames();
size_t CodeIndex(grpc::StatusCode code);
absl::string_view CodeName(grpc::StatusCode code);

// "none", the reasons of base/error_reasons.h, then "other".
std::vector<std::string> ErrorReasonNames();
size_t ErrorReasonIndex(absl::string_view reason);

// The backends that forwards run on, and the reasons for choosing one ("none" = the rules chose a
// tree backend).
std::vector<std::string> BackendNames();
size_t BackendIndex(Backend backend);
std::vector<std::string> RouteReasonNames();
size_t RouteReasonIndex(Reason reason);

}  // namespace canopy::server

#endif  // SERVER_TELEMETRY_METRIC_LABELS_H_
