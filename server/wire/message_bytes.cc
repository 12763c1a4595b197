#include "server/wire/message_bytes.h"

namespace canopy::server {

grpc::Slice SingleSlice(const grpc::ByteBuffer& buffer) {
  grpc::Slice slice;
  if (!buffer.TrySingleSlice(&slice).ok() && !buffer.DumpToSingleSlice(&slice).ok()) {
    // Only for a buffer that gRPC cannot read at all, which then holds nothing.
    return {};
  }
  return slice;
}

grpc::ByteBuffer ToByteBuffer(const google::protobuf::MessageLite& message) {
  const grpc::Slice slice(message.SerializeAsString());
  return grpc::ByteBuffer(&slice, 1);
}

}  // namespace canopy::server
