// The bytes of a gRPC message as one contiguous slice.
#ifndef SERVER_WIRE_MESSAGE_BYTES_H_
#define SERVER_WIRE_MESSAGE_BYTES_H_

#include "absl/strings/string_view.h"
#include "google/protobuf/message_lite.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/slice.h"

namespace canopy::server {

// Returns the slice of the buffer, without a copy if there is only one.
grpc::Slice SingleSlice(const grpc::ByteBuffer& buffer);

inline absl::string_view ViewOf(const grpc::Slice& slice) {
  return {reinterpret_cast<const char*>(slice.begin()), slice.size()};
}

grpc::ByteBuffer ToByteBuffer(const google::protobuf::MessageLite& message);

}  // namespace canopy::server

#endif  // SERVER_WIRE_MESSAGE_BYTES_H_
