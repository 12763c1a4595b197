#include "core/runtime/route_costs_file.h"

#include <cstddef>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/status_macros.h"
#include "base/strict_json.h"
#include "base/whole_file.h"

namespace canopy {
namespace {

using nlohmann::json;

constexpr size_t kMaxFileBytes = size_t{4} << 20;
// An entry has about 1 KiB, so the file stays far below kMaxFileBytes.
constexpr size_t kMaxEntries = 256;
// An update takes milliseconds.
constexpr absl::Duration kLockTimeout = absl::Seconds(5);

struct CostField {
  const char* name;
  double BackendCost::*value;
};
constexpr CostField kFields[] = {{"forward_ms", &BackendCost::forward_ms},
                                 {"group_ms", &BackendCost::group_ms},
                                 {"token_ms", &BackendCost::token_ms},
                                 {"pair_ms", &BackendCost::pair_ms}};

absl::Status NotOurs(const std::string& path, absl::string_view what) {
  return absl::InvalidArgumentError(
      absl::StrCat("route costs '", path, "': ", what, "; remove the file to measure again"));
}

json KeyToJson(const RouteCostsKey& key) {
  return {{"device", key.device},
          {"dtype", key.dtype},
          {"fingerprint", key.fingerprint},
          {"build", key.build}};
}

absl::Status CannotWrite(const std::string& path, const absl::Status& status) {
  return absl::InvalidArgumentError(
      absl::StrCat("route costs '", path, "': cannot be written: ", status.message()));
}

bool HasKey(const json& entry, const RouteCostsKey& key) {
  const json wanted = KeyToJson(key);
  for (const auto& [name, value] : wanted.items()) {
    if (!entry.contains(name) || entry[name] != value) {
      return false;
    }
  }
  return true;
}

// Returns the text of the file; nullopt if it does not exist.
absl::StatusOr<std::optional<std::string>> ReadText(const std::string& path) {
  absl::StatusOr<std::string> text = ReadWholeFile(path, kMaxFileBytes);
  if (absl::IsNotFound(text.status())) {
    return std::nullopt;
  }
  if (!text.ok()) {
    return absl::FailedPreconditionError(absl::StrCat("route costs: ", text.status().message()));
  }
  return *std::move(text);
}

// Returns the whole document; an empty one if the file does not exist or is empty.
absl::StatusOr<json> ReadDocument(const std::string& path) {
  CANOPY_ASSIGN_OR_RETURN(const std::optional<std::string> text, ReadText(path));
  if (!text.has_value() || text->empty()) {
    return json{{"entries", json::array()}};
  }
  absl::StatusOr<json> document = ParseStrictJson(*text, {});
  if (!document.ok()) {
    return NotOurs(path, document.status().message());
  }
  const bool has_entries =
      document->is_object() && document->contains("entries") && (*document)["entries"].is_array();
  if (!has_entries) {
    return NotOurs(path, "no list of entries");
  }
  for (const json& entry : (*document)["entries"]) {
    if (!entry.is_object()) {
      return NotOurs(path, "an entry is not an object");
    }
  }
  return document;
}

absl::StatusOr<RouteCosts> CostsFromJson(const std::string& path, const json& entry) {
  RouteCosts costs;
  if (!entry.contains("costs") || !entry["costs"].is_object()) {
    return NotOurs(path, "an entry has no costs");
  }
  for (const auto& [name, fields] : entry["costs"].items()) {
    const Backend* backend = nullptr;
    for (const Backend& known : kForwardBackends) {
      backend = name == BackendName(known) ? &known : backend;
    }
    if (backend == nullptr || !fields.is_object()) {
      return NotOurs(path, "costs of something that is not a backend");
    }
    BackendCost& cost = costs.backends[*backend];
    for (const CostField& field : kFields) {
      const auto value = fields.find(field.name);
      if (value == fields.end() || !value->is_number() || value->get<double>() < 0) {
        return NotOurs(
            path, absl::StrCat("costs.", name, ".", field.name, " is not a number of at least 0"));
      }
      cost.*field.value = value->get<double>();
    }
  }
  return costs;
}

json CostsToJson(const RouteCosts& costs) {
  json result = json::object();
  for (const auto& [backend, cost] : costs.backends) {
    for (const CostField& field : kFields) {
      result[std::string(BackendName(backend))][field.name] = cost.*field.value;
    }
  }
  return result;
}

}  // namespace

absl::StatusOr<RouteCosts> ReadRouteCosts(const std::string& path, const RouteCostsKey& key) {
  CANOPY_ASSIGN_OR_RETURN(const json document, ReadDocument(path));
  for (const json& entry : document["entries"]) {
    if (HasKey(entry, key)) {
      return CostsFromJson(path, entry);
    }
  }
  return absl::NotFoundError(
      absl::StrCat("route costs '", path, "': nothing for ", KeyToJson(key).dump()));
}

absl::Status WriteRouteCosts(const std::string& path, const RouteCostsKey& key,
                             const RouteCosts& costs) {
  // Servers of one host must add their entries one after the other, or each would overwrite the
  // others'.
  const auto lock = FolderLock::Acquire(path, kLockTimeout);
  if (!lock.ok()) {
    return CannotWrite(path, lock.status());
  }
  CANOPY_ASSIGN_OR_RETURN(json document, ReadDocument(path));
  json entries = json::array();
  for (const json& entry : document["entries"]) {
    if (!HasKey(entry, key)) {
      entries.push_back(entry);
    }
  }
  // The oldest entries come first.
  while (entries.size() >= kMaxEntries) {
    entries.erase(entries.begin());
  }
  json added = KeyToJson(key);
  added["costs"] = CostsToJson(costs);
  entries.push_back(std::move(added));
  document["entries"] = std::move(entries);
  const absl::Status written = WriteWholeFile(path, document.dump(1) + "\n");
  return written.ok() ? written : CannotWrite(path, written);
}

}  // namespace canopy
