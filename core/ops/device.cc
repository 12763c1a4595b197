#include "core/ops/device.h"

#include <algorithm>
#include <fstream>
#include <mutex>
#include <optional>
#include <thread>

#include "ATen/Context.h"
#include "ATen/Parallel.h"
#include "ATen/core/Tensor.h"
#include "ATen/ops/full.h"
#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "core/ops/cuda_stream.h"
#include "core/ops/torch_guard.h"

namespace canopy {
namespace {

int64_t NumCudaDevices() {
  return at::globalContext().hasCUDA() ? static_cast<int64_t>(at::getNumGPUs()) : 0;
}

// A listed device may still be unusable: unsupported architecture, wrong driver, or busy.
absl::Status RunSmallKernel(c10::Device device) {
  return GuardTorch("trying the device", [&]() -> absl::Status {
    const at::Tensor sum = at::full({64}, 2.0, at::TensorOptions().device(device)).sum();
    return sum.item<float>() == 128.0F ? absl::OkStatus()
                                       : absl::InternalError("the device computes wrong results");
  });
}

// Returns N for "cuda:N" and 0 for "cuda".
std::optional<int32_t> CudaIndex(absl::string_view name) {
  if (name == "cuda") {
    return 0;
  }
  int32_t index = 0;
  if (!absl::ConsumePrefix(&name, "cuda:") || !absl::SimpleAtoi(name, &index) || index < 0 ||
      index > 127) {
    return std::nullopt;
  }
  return index;
}

std::string CudaDeviceName(c10::Device device) {
#if CANOPY_CUDA_STREAMS
  cudaDeviceProp properties;
  if (cudaGetDeviceProperties(&properties, device.index()) == cudaSuccess) {
    return properties.name;
  }
#endif
  return device.str();
}

}  // namespace

absl::StatusOr<c10::Device> ResolveDevice(absl::string_view name) {
  const c10::Device cpu(c10::DeviceType::CPU);
  if (name == "cpu") {
    return cpu;
  }
  if (name == "auto") {
    const c10::Device first(c10::DeviceType::CUDA, 0);
    return NumCudaDevices() > 0 && RunSmallKernel(first).ok() ? first : cpu;
  }
  const std::optional<int32_t> index = CudaIndex(name);
  if (!index.has_value()) {
    return absl::InvalidArgumentError(
        absl::StrCat("device '", name, "' is not one of auto, cpu, cuda and cuda:N"));
  }
  if (*index >= NumCudaDevices()) {
    return absl::FailedPreconditionError(
        absl::StrCat("device ", name, ": this machine has ", NumCudaDevices(), " CUDA devices"));
  }
  const c10::Device device(c10::DeviceType::CUDA, static_cast<c10::DeviceIndex>(*index));
  if (const absl::Status status = RunSmallKernel(device); !status.ok()) {
    return absl::FailedPreconditionError(
        absl::StrCat("device ", name, " does not run: ", status.message()));
  }
  return device;
}

absl::StatusOr<c10::ScalarType> ResolveDtype(absl::string_view name, c10::Device device) {
  if (name == "float32" || (name == "auto" && device.is_cpu())) {
    return c10::ScalarType::Float;
  }
  if (name == "bfloat16" || name == "auto") {
    return c10::ScalarType::BFloat16;
  }
  if (name == "float16") {
    return c10::ScalarType::Half;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("dtype '", name, "' is not one of auto, float32, bfloat16 and float16"));
}

absl::string_view DtypeName(c10::ScalarType dtype) {
  switch (dtype) {
    case c10::ScalarType::BFloat16:
      return "bfloat16";
    case c10::ScalarType::Half:
      return "float16";
    default:
      return "float32";
  }
}

std::string DescribeDevice(c10::Device device) {
  if (!device.is_cpu()) {
    return CudaDeviceName(device);
  }
  std::string name = "unknown CPU";
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (absl::StartsWith(line, "model name")) {
      name = std::string(absl::StripAsciiWhitespace(line.substr(line.find(':') + 1)));
      break;
    }
  }
  return absl::StrCat(name, ", ", at::get_num_threads(), " threads");
}

void ConfigureTorch(int32_t threads) {
  static std::once_flag once;
  std::call_once(once, [threads] {
    const auto cores = static_cast<int32_t>(std::thread::hardware_concurrency());
    at::set_num_threads(threads > 0 ? threads : std::max(1, cores));
    // Operations are not run in parallel with each other, so one inter-op thread is enough.
    at::set_num_interop_threads(1);
    at::globalContext().setAllowTF32CuBLAS(false);
    at::globalContext().setAllowTF32CuDNN(false);
  });
}

}  // namespace canopy
