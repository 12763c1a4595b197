#include "server/wire/message_bytes.h"

namespace canopy::server {

grpc::Slice SingleSlice(const grpc::ByteBuffer& buffer) {
  grpc::Slice slice;
  if (!buffer.TrySingleSlice(&slice).ok() && !buffer.DumpToSingleSlice(&slice).ok()) {
    // gRPC cannot read the buffer, so it is treated as empty.
    return {};
  }
  return slice;
}

grpc::ByteBuffer ToByteBuffer(const google::protobuf::MessageLite& message) {
  const grpc::Slice slice(message.SerializeAsString());
  return grpc::ByteBuffer(&slice, 1);
}

}  // namespace canopy::server
