// Typed reads from one object of a config.json. Errors are INVALID_ARGUMENT and name the key by its
// path in the document, its value and what is possible.
#ifndef CORE_CHECKPOINT_CONFIG_READER_H_
#define CORE_CHECKPOINT_CONFIG_READER_H_

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace canopy {

// A view: the object must outlive it. A key whose value is null counts as absent, as in both
// dialects of config.json. Reads leave their target alone when they fail.
class ConfigReader {
 public:
  // `name` is the object's own path, such as "rope_scaling"; empty for the document.
  explicit ConfigReader(const nlohmann::json& object, absl::string_view name = "");

  const nlohmann::json& object() const { return object_; }

  // Null when the key is absent.
  const nlohmann::json* Find(const char* key) const;

  // 1 .. max.
  absl::Status ReadInteger(const char* key, int64_t max, int64_t* target) const;
  // Above 0 and up to max.
  absl::Status ReadNumber(const char* key, double max, double* target) const;

  // These leave `target` alone when the key is absent.
  absl::Status ReadOptionalInteger(const char* key, int64_t max, int64_t* target) const;
  absl::Status ReadOptionalNumber(const char* key, double max, double* target) const;
  absl::Status ReadOptionalBool(const char* key, bool* target) const;

  // The key must be absent or have this value.
  absl::Status CheckAbsentOr(const char* key, const nlohmann::json& only) const;

  absl::Status Missing(absl::string_view key) const;
  absl::Status Refuse(absl::string_view key, const nlohmann::json& value,
                      absl::string_view expected) const;

  // The key's path in the document, such as "rope_scaling.factor".
  std::string Path(absl::string_view key) const;

 private:
  const nlohmann::json& object_;
  const std::string prefix_;
};

}  // namespace canopy

#endif  // CORE_CHECKPOINT_CONFIG_READER_H_
