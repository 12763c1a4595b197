#include "core/checkpoint/safetensors.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/checked_math.h"
#include "base/status_macros.h"
#include "base/strict_json.h"

namespace canopy {
namespace {

using nlohmann::json;

constexpr int64_t kLengthBytes = 8;
constexpr int64_t kMaxHeaderBytes = 100'000'000;  // the limit of the format
constexpr int kMaxHeaderDepth = 3;                // root, tensor, shape or offsets
constexpr int64_t kMaxHeaderValues = 1'000'000;   // enough for about 100,000 tensors
constexpr absl::string_view kMetadataKey = "__metadata__";

// A tensor as described by the header. Offsets are in bytes from the end of the header.
struct Entry {
  std::string name;
  DType dtype = DType::kFloat32;
  std::vector<int64_t> shape;
  int64_t begin = 0;
  int64_t end = 0;
};

// Precondition: `file` has at least kLengthBytes bytes.
uint64_t HeaderLength(absl::Span<const uint8_t> file) {
  uint64_t length = 0;
  for (int64_t i = kLengthBytes - 1; i >= 0; --i) {
    length = length << 8 | file[static_cast<size_t>(i)];
  }
  return length;
}

absl::StatusOr<absl::Span<const uint8_t>> HeaderBytes(absl::Span<const uint8_t> file) {
  const auto file_bytes = static_cast<int64_t>(file.size());
  if (file_bytes < kLengthBytes) {
    return absl::DataLossError(
        absl::StrCat("file of ", file_bytes, " bytes is shorter than its header length field"));
  }
  const uint64_t length = HeaderLength(file);
  if (length > uint64_t{kMaxHeaderBytes}) {
    return absl::DataLossError(
        absl::StrCat("header of ", length, " bytes exceeds ", kMaxHeaderBytes));
  }
  if (length > static_cast<uint64_t>(file_bytes - kLengthBytes)) {
    return absl::DataLossError(
        absl::StrCat("header of ", length, " bytes in a file of ", file_bytes));
  }
  const absl::Span<const uint8_t> header = file.subspan(kLengthBytes, length);
  if (header.empty() || header.front() != '{') {
    return absl::DataLossError("header does not start with '{'");
  }
  return header;
}

absl::Status CheckMetadata(const json& metadata) {
  if (!metadata.is_object()) {
    return absl::DataLossError("__metadata__ is not an object");
  }
  for (const auto& [key, value] : metadata.items()) {
    if (!value.is_string()) {
      return absl::DataLossError(
          absl::StrCat("__metadata__.", PrintableName(key), " is not a string"));
    }
  }
  return absl::OkStatus();
}

std::optional<int64_t> ToSize(const json& value) {
  if (!value.is_number_unsigned() || value.get<uint64_t>() > uint64_t{INT64_MAX}) {
    return std::nullopt;
  }
  return value.get<int64_t>();
}

// Returns a list of sizes, or nullopt if `value` is anything else.
std::optional<std::vector<int64_t>> ToSizes(const json& value) {
  if (!value.is_array()) {
    return std::nullopt;
  }
  std::vector<int64_t> sizes;
  sizes.reserve(value.size());
  for (const json& element : value) {
    const std::optional<int64_t> size = ToSize(element);
    if (!size.has_value()) {
      return std::nullopt;
    }
    sizes.push_back(*size);
  }
  return sizes;
}

// Returns the bytes of a dense tensor, or nullopt on overflow.
std::optional<int64_t> DenseBytes(const Entry& entry) {
  std::optional<int64_t> bytes = DTypeBytes(entry.dtype);
  for (const int64_t dimension : entry.shape) {
    bytes = CheckedMultiply(*bytes, dimension);
    if (!bytes.has_value()) {
      return std::nullopt;
    }
  }
  return bytes;
}

absl::Status ReadDType(const json& value, Entry* entry) {
  const std::optional<DType> dtype =
      value.is_string() ? DTypeFromName(value.get_ref<const std::string&>()) : std::nullopt;
  if (!dtype.has_value()) {
    return absl::DataLossError(absl::StrCat("unknown dtype ", DescribeJson(value)));
  }
  entry->dtype = *dtype;
  return absl::OkStatus();
}

absl::Status ReadFields(const json& fields, Entry* entry) {
  if (!fields.is_object() || fields.size() != 3 || !fields.contains("dtype") ||
      !fields.contains("shape") || !fields.contains("data_offsets")) {
    return absl::DataLossError("not an object of dtype, shape and data_offsets");
  }
  CANOPY_RETURN_IF_ERROR(ReadDType(*fields.find("dtype"), entry));
  const json& shape = *fields.find("shape");
  std::optional<std::vector<int64_t>> dimensions = ToSizes(shape);
  if (!dimensions.has_value()) {
    return absl::DataLossError(absl::StrCat("shape ", DescribeJson(shape), " is not a shape"));
  }
  entry->shape = *std::move(dimensions);
  const json& data_offsets = *fields.find("data_offsets");
  const std::optional<std::vector<int64_t>> offsets = ToSizes(data_offsets);
  if (!offsets.has_value() || offsets->size() != 2 || (*offsets)[0] > (*offsets)[1]) {
    return absl::DataLossError(
        absl::StrCat("data_offsets ", DescribeJson(data_offsets), " is not a range"));
  }
  entry->begin = (*offsets)[0];
  entry->end = (*offsets)[1];
  const std::optional<int64_t> bytes = DenseBytes(*entry);
  if (bytes != entry->end - entry->begin) {
    return absl::DataLossError(
        absl::StrCat("shape ", DescribeJson(shape), " of ", DTypeName(entry->dtype), " takes ",
                     bytes.has_value() ? absl::StrCat(*bytes) : "more than 2^63",
                     " bytes, data_offsets give ", entry->end - entry->begin));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Entry>> ReadEntries(const json& header) {
  std::vector<Entry> entries;
  entries.reserve(header.size());
  for (const auto& [name, fields] : header.items()) {
    if (name == kMetadataKey) {
      CANOPY_RETURN_IF_ERROR(CheckMetadata(fields));
      continue;
    }
    Entry entry;
    entry.name = name;
    if (const absl::Status status = ReadFields(fields, &entry); !status.ok()) {
      return absl::DataLossError(
          absl::StrCat("tensor ", PrintableName(name), ": ", status.message()));
    }
    entries.push_back(std::move(entry));
  }
  return entries;
}

// Checks that the ranges cover the data exactly once, as the format requires. Bytes outside every
// range would not be part of the fingerprint.
absl::Status CheckCoverage(std::vector<Entry>& entries, int64_t data_bytes) {
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return std::make_pair(a.begin, a.end) < std::make_pair(b.begin, b.end);
  });
  int64_t covered = 0;
  for (const Entry& entry : entries) {
    if (entry.begin != covered) {
      return absl::DataLossError(absl::StrCat("tensor ", PrintableName(entry.name), " starts at ",
                                              entry.begin,
                                              entry.begin < covered ? ", inside" : ", not at",
                                              " the end ", covered, " of its predecessor"));
    }
    covered = entry.end;
  }
  if (covered != data_bytes) {
    return absl::DataLossError(
        absl::StrCat("tensors end at byte ", covered, " of ", data_bytes, " data bytes"));
  }
  return absl::OkStatus();
}

}  // namespace

uint64_t SafetensorsHeaderEnd(absl::Span<const uint8_t> file) {
  if (file.size() < uint64_t{kLengthBytes}) {
    return kLengthBytes;
  }
  const uint64_t length = HeaderLength(file);
  // A longer header is refused without reading it.
  return kLengthBytes + (length > uint64_t{kMaxHeaderBytes} ? 0 : length);
}

absl::StatusOr<std::vector<TensorView>> ParseSafetensors(absl::Span<const uint8_t> file) {
  CANOPY_ASSIGN_OR_RETURN(const absl::Span<const uint8_t> header_bytes, HeaderBytes(file));
  const absl::string_view text(reinterpret_cast<const char*>(header_bytes.data()),
                               header_bytes.size());
  const absl::StatusOr<json> header =
      ParseStrictJson(text, {kMaxHeaderBytes, kMaxHeaderDepth, kMaxHeaderValues});
  if (!header.ok()) {
    return absl::DataLossError(absl::StrCat("header: ", header.status().message()));
  }
  CANOPY_ASSIGN_OR_RETURN(std::vector<Entry> entries, ReadEntries(*header));
  const absl::Span<const uint8_t> data = file.subspan(kLengthBytes + header_bytes.size());
  CANOPY_RETURN_IF_ERROR(CheckCoverage(entries, static_cast<int64_t>(data.size())));
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return a.name < b.name; });
  std::vector<TensorView> tensors;
  tensors.reserve(entries.size());
  for (Entry& entry : entries) {
    const auto bytes = data.subspan(static_cast<size_t>(entry.begin),
                                    static_cast<size_t>(entry.end - entry.begin));
    tensors.push_back({std::move(entry.name), entry.dtype, std::move(entry.shape), bytes});
  }
  return tensors;
}

}  // namespace canopy
