// Reads protobuf's wire format from contiguous bytes without allocating, by the rules that
// protobuf's own parser keeps: the same bytes are refused, the same fields are found.
//
// The request decoder is built on it, since generated parsing allocates far more than it reads.
#ifndef SERVER_WIRE_READER_H_
#define SERVER_WIRE_READER_H_

#include <cstdint>

#include "absl/strings/string_view.h"

namespace canopy::server {

enum class WireType : uint8_t {
  kVarint = 0,
  kFixed64 = 1,
  kBytes = 2,
  kStartGroup = 3,
  kEndGroup = 4,
  kFixed32 = 5,
};

// One field as it stands on the wire. What it holds depends on the type.
struct WireField {
  uint32_t number = 0;
  WireType type = WireType::kVarint;
  uint64_t varint = 0;      // kVarint; kFixed32 and kFixed64: the raw bits
  absl::string_view bytes;  // kBytes: a view into the message

  bool IsVarint(uint32_t wanted) const { return number == wanted && type == WireType::kVarint; }
  bool IsBytes(uint32_t wanted) const { return number == wanted && type == WireType::kBytes; }
};

// Steps through the fields of one message. Thread-compatible; views the bytes, owns nothing.
//
//   WireReader reader(bytes);
//   for (WireField field; reader.Next(&field);) { ... }
//   if (reader.malformed()) ...
class WireReader {
 public:
  // `depth`: levels of nesting that may still open below this message, as protobuf counts them.
  explicit WireReader(absl::string_view message, int depth = kMaxDepth)
      : position_(message.data()), end_(message.data() + message.size()), depth_(depth) {}

  // Reads the next field; a group is skipped whole and shown as kStartGroup. False at the end, and
  // for malformed bytes: a cut-off or overlong varint, a length beyond the message, field number 0,
  // wire types 6 and 7, an unmatched end of a group, or groups nested too deeply.
  bool Next(WireField* field);
  bool malformed() const { return malformed_; }

  // A reader of the message inside `field`.
  WireReader Nested(const WireField& field) const { return WireReader(field.bytes, depth_ - 1); }

  static constexpr int kMaxDepth = 100;

 private:
  bool Fail() {
    malformed_ = true;
    return false;
  }
  bool ReadTag(WireField* field);
  bool ReadValue(WireField* field);
  bool ReadFixed(int num_bytes, uint64_t* value);
  bool SkipGroup(uint32_t number);

  const char* position_;
  const char* end_;
  int depth_;
  bool malformed_ = false;
};

// Reads a varint of at most 10 bytes and moves `*position` behind it. False when it is cut off or
// longer.
bool ReadVarint(const char** position, const char* end, uint64_t* value);

// Varints that end in `packed`: as many as a well-formed packed field has elements.
int64_t CountVarints(absl::string_view packed);

// Whether `text` is UTF-8 as protobuf wants strings: no surrogates, no overlong forms.
bool IsValidUtf8(absl::string_view text);

}  // namespace canopy::server

#endif  // SERVER_WIRE_READER_H_
