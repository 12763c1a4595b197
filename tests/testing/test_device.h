// The device for tests of tensors: "cpu", or the value of CANOPY_TEST_DEVICE, such as "cuda:0". On
// a machine with a GPU, tests/conformance/run_bundle.py sets it.
#ifndef TESTS_TESTING_TEST_DEVICE_H_
#define TESTS_TESTING_TEST_DEVICE_H_

#include <cstdlib>
#include <string>

namespace canopy {

inline std::string TestDevice() {
  const char* device = std::getenv("CANOPY_TEST_DEVICE");
  return device == nullptr ? "cpu" : device;
}

}  // namespace canopy

#endif  // TESTS_TESTING_TEST_DEVICE_H_
