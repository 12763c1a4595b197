// A TCP connection for tests that write bytes that no client library would send.
#ifndef TESTS_TESTING_LOOPBACK_SOCKET_H_
#define TESTS_TESTING_LOOPBACK_SOCKET_H_

#include <chrono>
#include <string>

namespace canopy::testing {

// Connects to the port of "HOST:PORT" on 127.0.0.1 and returns the descriptor, which the caller
// closes. Reads fail after `patience`. A failure to connect fails the test.
int ConnectTo(const std::string& address, std::chrono::seconds patience);

}  // namespace canopy::testing

#endif  // TESTS_TESTING_LOOPBACK_SOCKET_H_
