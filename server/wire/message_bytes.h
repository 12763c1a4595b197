// The bytes of a message as gRPC hands them over, as one run.
#ifndef SERVER_WIRE_MESSAGE_BYTES_H_
#define SERVER_WIRE_MESSAGE_BYTES_H_

#include "absl/strings/string_view.h"
#include "google/protobuf/message_lite.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/slice.h"

namespace canopy::server {

// Without a copy where they are one run.
grpc::Slice SingleSlice(const grpc::ByteBuffer& buffer);

inline absl::string_view ViewOf(const grpc::Slice& slice) {
  return {reinterpret_cast<const char*>(slice.begin()), slice.size()};
}

grpc::ByteBuffer ToByteBuffer(const google::protobuf::MessageLite& message);

}  // namespace canopy::server

#endif  // SERVER_WIRE_MESSAGE_BYTES_H_
