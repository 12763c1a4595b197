#include "server/wire/wire_reader.h"

#include <climits>
#include <cstddef>
#include <cstring>

namespace canopy::server {
namespace {

constexpr int kMaxVarintBytes = 10;
constexpr int kMaxTagBytes = 5;
// The number of bytes that are read at once. In kHighBits, a bit is set for each byte that is not
// the last of its varint.
constexpr size_t kEight = 8;
constexpr uint64_t kHighBits = 0x8080'8080'8080'8080;

// Decodes up to `max_bytes` groups of seven bits, lowest first. Bits that the result has no room
// for are dropped, as protobuf does.
template <typename Unsigned>
bool ReadGroups(const char** position, const char* end, int max_bytes, Unsigned* value) {
  Unsigned result = 0;
  const char* next = *position;
  for (int i = 0; i < max_bytes && next < end; ++i) {
    const auto byte = static_cast<unsigned char>(*next++);
    result |= static_cast<Unsigned>(static_cast<Unsigned>(byte & 0x7f) << (7 * i));
    if (byte < 0x80) {
      *position = next;
      *value = result;
      return true;
    }
  }
  return false;
}

// Lengths are below 2 GiB, which the fifth byte shows.
bool ReadLength(const char** position, const char* end, uint32_t* length) {
  const char* begin = *position;
  if (begin < end && static_cast<signed char>(*begin) >= 0) {
    *length = static_cast<unsigned char>(*begin);
    ++*position;
    return true;
  }
  if (!ReadGroups(position, end, kMaxTagBytes, length)) {
    return false;
  }
  const ptrdiff_t size = *position - begin;
  return size < kMaxTagBytes || static_cast<unsigned char>(begin[kMaxTagBytes - 1]) < 8;
}

}  // namespace

bool WireReader::ReadNext(WireField* field) {
  if (!ReadTag(field)) {
    return Fail();
  }
  if (field->type == WireType::kStartGroup) {
    return SkipGroup(field->number) || Fail();
  }
  if (field->type == WireType::kEndGroup) {
    return Fail();
  }
  return ReadValue(field) || Fail();
}

// Precondition: at least one byte is left.
bool WireReader::ReadTag(WireField* field) {
  uint32_t tag = static_cast<unsigned char>(*position_);
  if (tag < 0x80) {
    ++position_;
  } else if (!ReadGroups(&position_, end_, kMaxTagBytes, &tag)) {
    return false;
  }
  field->number = tag >> 3;
  field->type = static_cast<WireType>(tag & 7);
  return field->number != 0 && (tag & 7) <= static_cast<uint32_t>(WireType::kFixed32);
}

bool WireReader::ReadValue(WireField* field) {
  switch (field->type) {
    case WireType::kVarint:
      return ReadGroups(&position_, end_, kMaxVarintBytes, &field->varint);
    case WireType::kFixed64:
      return ReadFixed(8, &field->varint);
    case WireType::kFixed32:
      return ReadFixed(4, &field->varint);
    case WireType::kBytes: {
      uint32_t length = 0;
      if (!ReadLength(&position_, end_, &length) || length > end_ - position_) {
        return false;
      }
      field->bytes = absl::string_view(position_, length);
      position_ += length;
      return true;
    }
    case WireType::kStartGroup:
    case WireType::kEndGroup:
      break;
  }
  return false;
}

bool WireReader::ReadFixed(int num_bytes, uint64_t* value) {
  if (end_ - position_ < num_bytes) {
    return false;
  }
  uint64_t result = 0;
  for (int i = 0; i < num_bytes; ++i) {
    result |= uint64_t{static_cast<unsigned char>(position_[i])} << (8 * i);
  }
  position_ += num_bytes;
  *value = result;
  return true;
}

// Iterative, so that a message cannot choose the depth of the stack.
bool WireReader::SkipGroup(uint32_t number) {
  uint32_t open[kMaxDepth];
  int num_open = 0;
  open[num_open++] = number;
  while (num_open > 0) {
    WireField field;
    if (num_open > depth_ || position_ == end_ || !ReadTag(&field)) {
      return false;
    }
    if (field.type == WireType::kStartGroup) {
      if (num_open == kMaxDepth) {
        return false;
      }
      open[num_open++] = field.number;
    } else if (field.type == WireType::kEndGroup) {
      if (open[--num_open] != field.number) {
        return false;
      }
    } else if (!ReadValue(&field)) {
      return false;
    }
  }
  return true;
}

int64_t CountVarints(absl::string_view packed) {
  int64_t count = 0;
  for (; packed.size() >= kEight; packed.remove_prefix(kEight)) {
    uint64_t eight = 0;
    std::memcpy(&eight, packed.data(), kEight);
    // Sets a one in each byte that ends a varint. The multiplication sums them in the highest byte.
    count += static_cast<int64_t>((~eight & kHighBits) / 0x80 * 0x0101'0101'0101'0101 >> 56);
  }
  for (const char c : packed) {
    count += static_cast<signed char>(c) >= 0 ? 1 : 0;
  }
  return count;
}

bool ReadPackedVarints(absl::string_view packed, int32_t* values) {
  if (packed.empty()) {
    return true;
  }
  // If the last byte ends a varint, every varint ends inside `packed`, and reading up to three
  // bytes needs no further check.
  if (static_cast<signed char>(packed.back()) < 0) {
    return false;
  }
  const char* position = packed.data();
  const char* const end = position + packed.size();
  const auto byte = [&position](int i) {
    return uint32_t{static_cast<unsigned char>(position[i])};
  };
  while (position < end) {
    if (static_cast<size_t>(end - position) >= kEight) {
      uint64_t eight = 0;
      std::memcpy(&eight, position, kEight);
      if ((eight & kHighBits) == 0) {
        for (size_t i = 0; i < kEight; ++i) {
          values[i] = static_cast<unsigned char>(position[i]);
        }
        values += kEight;
        position += kEight;
        continue;
      }
    }
    uint32_t value = byte(0);
    if (value < 0x80) {
      position += 1;
    } else if (byte(1) < 0x80) {
      value = (value & 0x7f) | byte(1) << 7;
      position += 2;
    } else if (byte(2) < 0x80) {
      value = (value & 0x7f) | (byte(1) & 0x7f) << 7 | byte(2) << 14;
      position += 3;
    } else {
      uint64_t wide = 0;
      if (!ReadGroups(&position, end, kMaxVarintBytes, &wide)) {
        return false;
      }
      value = static_cast<uint32_t>(wide);
    }
    *values++ = static_cast<int32_t>(value);
  }
  return true;
}

}  // namespace canopy::server
