// Device memory and error checks for the check and benchmark programs. They exit at the first CUDA
// error, because later results would be meaningless.
#ifndef KERNELS_CHECK_DEVICE_BUFFER_H_
#define KERNELS_CHECK_DEVICE_BUFFER_H_

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "cuda_runtime_api.h"

namespace canopy::kernels::check {

inline void Require(cudaError_t error, const char* what) {
  if (error == cudaSuccess) {
    return;
  }
  std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(error));
  std::exit(2);
}

// Owns device memory, which grows and never shrinks.
template <typename T>
class DeviceBuffer {
 public:
  DeviceBuffer() = default;
  explicit DeviceBuffer(size_t size) { Resize(size); }
  ~DeviceBuffer() { cudaFree(data_); }
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;

  // The contents are lost if the buffer grows.
  void Resize(size_t size) {
    if (size <= size_) {
      return;
    }
    cudaFree(data_);
    void* data = nullptr;
    Require(cudaMalloc(&data, size * sizeof(T)), "cudaMalloc");
    data_ = static_cast<T*>(data);
    size_ = size;
  }
  void Upload(const std::vector<T>& values) {
    Resize(values.size());
    Require(cudaMemcpy(data_, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice),
            "upload");
  }
  std::vector<T> Download(size_t size) const {
    std::vector<T> values(size);
    Require(cudaMemcpy(values.data(), data_, size * sizeof(T), cudaMemcpyDeviceToHost), "download");
    return values;
  }
  // Sets every byte to 0xFF, which is NaN in all element types.
  void Poison() { Require(cudaMemset(data_, 0xFF, size_ * sizeof(T)), "poison"); }

  T* get() const { return data_; }
  size_t size() const { return size_; }

 private:
  T* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace canopy::kernels::check

#endif  // KERNELS_CHECK_DEVICE_BUFFER_H_
