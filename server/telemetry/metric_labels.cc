#include "server/telemetry/metric_labels.h"

#include <algorithm>
#include <iterator>

#include "absl/algorithm/container.h"
#include "base/error_reasons.h"

namespace canopy::server {
namespace {

using Code = grpc::StatusCode;

struct NamedCode {
  Code code;
  absl::string_view name;
};

constexpr NamedCode kCodes[] = {
    {Code::OK, "OK"},
    {Code::CANCELLED, "CANCELLED"},
    {Code::UNKNOWN, "UNKNOWN"},
    {Code::INVALID_ARGUMENT, "INVALID_ARGUMENT"},
    {Code::DEADLINE_EXCEEDED, "DEADLINE_EXCEEDED"},
    {Code::NOT_FOUND, "NOT_FOUND"},
    {Code::PERMISSION_DENIED, "PERMISSION_DENIED"},
    {Code::RESOURCE_EXHAUSTED, "RESOURCE_EXHAUSTED"},
    {Code::FAILED_PRECONDITION, "FAILED_PRECONDITION"},
    {Code::UNIMPLEMENTED, "UNIMPLEMENTED"},
    {Code::INTERNAL, "INTERNAL"},
    {Code::UNAVAILABLE, "UNAVAILABLE"},
    {Code::DATA_LOSS, "DATA_LOSS"},
    {Code::UNAUTHENTICATED, "UNAUTHENTICATED"},
};
constexpr size_t kUnknownIndex = 2;

constexpr absl::string_view kMethods[] = {"Score",    "ScoreStream", "Explain",
                                          "GetModel", "ListModels",  "LoadWeights"};

}  // namespace

std::vector<std::string> MethodNames() { return {std::begin(kMethods), std::end(kMethods)}; }

absl::string_view MethodName(Method method) { return kMethods[static_cast<size_t>(method)]; }

std::vector<std::string> CodeNames() {
  std::vector<std::string> names;
  for (const NamedCode& code : kCodes) {
    names.emplace_back(code.name);
  }
  return names;
}

size_t CodeIndex(grpc::StatusCode code) {
  const auto* found =
      absl::c_find_if(kCodes, [code](const NamedCode& known) { return known.code == code; });
  return found == std::end(kCodes) ? kUnknownIndex : static_cast<size_t>(found - kCodes);
}

absl::string_view CodeName(grpc::StatusCode code) { return kCodes[CodeIndex(code)].name; }

std::vector<std::string> ErrorReasonNames() {
  std::vector<std::string> names = {"none"};
  for (const ErrorReasonRow& row : kErrorReasons) {
    names.emplace_back(row.name);
  }
  names.emplace_back("other");
  return names;
}

size_t ErrorReasonIndex(absl::string_view reason) {
  if (reason.empty()) {
    return 0;
  }
  const auto* found = absl::c_find_if(
      kErrorReasons, [reason](const ErrorReasonRow& row) { return row.name == reason; });
  return 1 + static_cast<size_t>(found - std::begin(kErrorReasons));
}

// No forward runs on kAuto, so the indices are those of the backends after it.
std::vector<std::string> BackendNames() {
  std::vector<std::string> names;
  for (const auto& [backend, name] : kBackends) {
    if (backend != Backend::kAuto) {
      names.emplace_back(name);
    }
  }
  return names;
}

size_t BackendIndex(Backend backend) {
  return std::min(static_cast<size_t>(backend) - 1, std::size(kBackends) - 2);
}

std::vector<std::string> RouteReasonNames() {
  std::vector<std::string> names;
  for (const ReasonRow& row : kReasons) {
    names.emplace_back(row.value == Reason::kNone ? "none" : row.name);
  }
  return names;
}

size_t RouteReasonIndex(Reason reason) { return static_cast<size_t>(reason); }

}  // namespace canopy::server
