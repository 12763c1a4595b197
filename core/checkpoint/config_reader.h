// Reads typed values from an object of a config.json. Errors are INVALID_ARGUMENT and name the path
// of the key in the document, its value and the allowed values.
#ifndef CORE_CHECKPOINT_CONFIG_READER_H_
#define CORE_CHECKPOINT_CONFIG_READER_H_

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace canopy {

// This is a view: the object must outlive it. A key with the value null counts as absent, as in
// both dialects of config.json. A failed read does not change its target.
class ConfigReader {
 public:
  // `name` is the path of the object, such as "rope_scaling"; it is empty for the whole document.
  explicit ConfigReader(const nlohmann::json& object, absl::string_view name = "");

  const nlohmann::json& object() const { return object_; }

  // Returns null if the key is absent.
  const nlohmann::json* Find(const char* key) const;

  // Reads an integer in 1 .. max. The key is required.
  absl::Status ReadInteger(const char* key, int64_t max, int64_t* target) const;
  // Reads a number above 0 and at most max. The key is required.
  absl::Status ReadNumber(const char* key, double max, double* target) const;

  // These do not change `target` if the key is absent.
  absl::Status ReadOptionalInteger(const char* key, int64_t max, int64_t* target) const;
  absl::Status ReadOptionalNumber(const char* key, double max, double* target) const;
  absl::Status ReadOptionalBool(const char* key, bool* target) const;

  // Returns an error unless the key is absent or has this value.
  absl::Status CheckAbsentOr(const char* key, const nlohmann::json& only) const;

  absl::Status Missing(absl::string_view key) const;
  absl::Status Refuse(absl::string_view key, const nlohmann::json& value,
                      absl::string_view expected) const;

  // Returns the path of the key in the document, such as "rope_scaling.factor".
  std::string Path(absl::string_view key) const;

 private:
  const nlohmann::json& object_;
  const std::string prefix_;
};

}  // namespace canopy

#endif  // CORE_CHECKPOINT_CONFIG_READER_H_
