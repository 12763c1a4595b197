// Declares the part of CUDA's runtime API that kernels/*.h use, for builds on machines without
// CUDA. The values are the same as in CUDA.
#ifndef KERNELS_NO_CUDA_CUDA_RUNTIME_API_H_
#define KERNELS_NO_CUDA_CUDA_RUNTIME_API_H_

// Distinguishes this header from CUDA's own.
#define KERNELS_NO_CUDA 1

enum cudaError_t {  // NOLINT(readability-identifier-naming)
  cudaSuccess = 0,
  cudaErrorInvalidValue = 1,
  cudaErrorNotSupported = 801,
};

struct CUstream_st;  // NOLINT(readability-identifier-naming)
using cudaStream_t = CUstream_st*;

#endif  // KERNELS_NO_CUDA_CUDA_RUNTIME_API_H_
