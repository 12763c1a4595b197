// Reads protobuf's wire format from contiguous bytes without allocating. Follows the rules of
// protobuf's own parser: it refuses the same bytes and finds the same fields.
//
// The request decoder uses it, because generated parsing allocates far more memory than it reads.
#ifndef SERVER_WIRE_WIRE_READER_H_
#define SERVER_WIRE_WIRE_READER_H_

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

// One field on the wire. The members that are set depend on the type.
struct WireField {
  uint32_t number = 0;
  WireType type = WireType::kVarint;
  uint64_t varint = 0;      // for kVarint; the raw bits of kFixed32 and kFixed64
  absl::string_view bytes;  // for kBytes: a view into the message

  bool IsVarint(uint32_t wanted) const { return number == wanted && type == WireType::kVarint; }
  bool IsBytes(uint32_t wanted) const { return number == wanted && type == WireType::kBytes; }
};

// Iterates over the fields of one message. Thread-compatible. Views the bytes and owns nothing.
//
//   WireReader reader(bytes);
//   for (WireField field; reader.Next(&field);) { ... }
//   if (reader.malformed()) ...
class WireReader {
 public:
  // `depth` is the number of levels that may be nested below this message, as protobuf counts them.
  explicit WireReader(absl::string_view message, int depth = kMaxDepth)
      : position_(message.data()), end_(message.data() + message.size()), depth_(depth) {}

  // Reads the next field. A group is skipped and returned as kStartGroup. Returns false at the end
  // and for malformed bytes: a truncated or overlong varint, a length beyond the message, field
  // number 0, wire types 6 and 7, an unmatched end of a group, or groups nested too deeply.
  bool Next(WireField* field) {
    return NextShort(field) || (position_ != end_ && !malformed_ && NextLong(field));
  }
  bool malformed() const { return malformed_; }

  // Returns a reader of the message in `field`.
  WireReader Nested(const WireField& field) const { return WireReader(field.bytes, depth_ - 1); }

  static constexpr int kMaxDepth = 100;

 private:
  // Reads a short field: a tag of one or two bytes with a value or length of one byte, or an empty
  // group. Inline, because hostile messages consist of such fields. Returns false without moving
  // for any other field.
  bool NextShort(WireField* field);
  // Works on copies, so that the compiler can keep the caller's reader and field in registers.
  bool NextLong(WireField* field) {
    WireReader reader = *this;
    WireField read;
    const bool found = reader.ReadNext(&read);
    *this = reader;
    *field = read;
    return found;
  }
  bool ReadNext(WireField* field);
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

// Returns the number of varints that end in `packed`, which is the number of elements of a
// well-formed packed field.
int64_t CountVarints(absl::string_view packed);
// The same, without a call if `packed` is a single byte.
inline int64_t CountFewVarints(absl::string_view packed) {
  return packed.size() == 1 ? (static_cast<signed char>(packed[0]) >= 0 ? 1 : 0)
                            : CountVarints(packed);
}

// Reads the elements of a packed uint32 field into `values`, which must have room for CountVarints
// of them. Bits beyond 32 are dropped, as protobuf does. Returns false if the last varint is
// truncated or a varint is longer than 10 bytes.
bool ReadPackedVarints(absl::string_view packed, int32_t* values);

inline bool WireReader::NextShort(WireField* field) {
  const char* next = position_;
  if (end_ - next < 2) {
    return false;
  }
  const auto first = static_cast<unsigned char>(*next++);
  uint32_t tag = first;
  if (first >= 0x80) {
    const auto second = static_cast<unsigned char>(*next++);
    tag = (first & 0x7f) | uint32_t{second} << 7;
    if (second >= 0x80 || next == end_) {
      return false;
    }
  }
  const auto value = static_cast<unsigned char>(*next++);
  const auto type = static_cast<WireType>(tag & 7);
  const uint32_t number = tag >> 3;
  if (value >= 0x80 || number == 0) {
    return false;
  }
  if (type == WireType::kVarint) {
    field->varint = value;
  } else if (type == WireType::kBytes && value <= end_ - next) {
    field->bytes = absl::string_view(next, value);
    next += value;
  } else if (type != WireType::kStartGroup || value != tag + 1 || depth_ < 1) {
    return false;
  }
  field->number = number;
  field->type = type;
  position_ = next;
  return true;
}

}  // namespace canopy::server

#endif  // SERVER_WIRE_WIRE_READER_H_
