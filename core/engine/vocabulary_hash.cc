#include "core/engine/vocabulary_hash.h"

#include <openssl/evp.h>

#include <array>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "core/base/status_macros.h"
#include "core/model/mapped_file.h"

namespace canopy {
namespace {

constexpr size_t kHashBytes = 8;

}  // namespace

absl::StatusOr<std::string> VocabularyHash(const std::string& folder) {
  const auto file = MappedFile::Open(absl::StrCat(folder, "/tokenizer.json"));
  if (absl::IsNotFound(file.status())) {
    return std::string();
  }
  CANOPY_RETURN_IF_ERROR(file.status());
  std::array<uint8_t, EVP_MAX_MD_SIZE> digest = {};
  unsigned int size = 0;
  const absl::string_view text = (*file)->text();
  if (EVP_Digest(text.data(), text.size(), digest.data(), &size, EVP_sha256(), nullptr) != 1) {
    return absl::InternalError("SHA-256 of tokenizer.json failed");
  }
  return absl::BytesToHexString(
      absl::string_view(reinterpret_cast<const char*>(digest.data()), kHashBytes));
}

}  // namespace canopy
