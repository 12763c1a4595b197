// Measures the matrix products with fused epilogues at the shapes of Qwen3-0.6B (hidden 1024,
// intermediate 3072, 16 query and 8 kv heads of 128, bfloat16), in TFLOP/s of the products. Usage:
// `product_benchmark`.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <random>
#include <vector>

#include "kernels/bench/graph_timer.h"
#include "kernels/check/device_buffer.h"
#include "kernels/check/element_codec.h"
#include "kernels/device.h"
#include "kernels/product/gated_product.h"
#include "kernels/product/head_product.h"

namespace canopy::kernels::bench {
namespace {

using check::DeviceBuffer;

constexpr int32_t kHidden = 1024;
constexpr int32_t kIntermediate = 3072;
constexpr int32_t kQueryHeads = 16;
constexpr int32_t kKvHeads = 8;
constexpr int32_t kHeadDim = 128;
constexpr int32_t kAllHeads = kQueryHeads + 2 * kKvHeads;

// Fills with normal values, because the power consumption of products, and thus their speed,
// depends on the bits.
void Fill(size_t size, double amplitude, DeviceBuffer<uint8_t>* buffer) {
  std::mt19937 random(3);
  std::normal_distribution<double> normal(0, amplitude);
  constexpr size_t kPeriod = 1 << 20;
  std::vector<double> values(std::min(size, kPeriod));
  for (double& value : values) {
    value = normal(random);
  }
  const std::vector<uint8_t> bits = check::Encode(values, DataType::kBFloat16);
  std::vector<uint8_t> all(size * 2);
  for (size_t i = 0; i < all.size(); ++i) {
    all[i] = bits[i % bits.size()];
  }
  buffer->Upload(all);
}

constexpr int32_t kRowCounts[] = {64, 192, 256, 512, 920, 2168, 4320, 9184, 16'384, 163'840};

// Times `launch` for each value of `tile_weights` and prints a row. `launch` is called with
// `tile_weights` and a stream.
template <typename Launch>
void Report(const char* name, int32_t num_rows, double operations, Launch launch) {
  for (const int32_t tile_weights : {0, 128, 256}) {
    const Timing timing =
        TimeGraph([&](cudaStream_t stream) { return launch(tile_weights, stream); });
    std::printf("%-14s %8d %5d %9.4f %9.4f %8.1f %8.1f\n", name, num_rows, tile_weights,
                timing.burst_ms, timing.sustained_ms, operations / timing.burst_ms / 1e9,
                operations / timing.sustained_ms / 1e9);
    std::fflush(stdout);
  }
}

void BenchProducts(const DeviceInfo& device) {
  std::printf("%-14s %8s %5s %9s %9s %8s %8s\n", "product", "rows", "tile", "burst ms", "sust. ms",
              "TFLOP/s", "sust.");
  DeviceBuffer<uint8_t> rows;
  DeviceBuffer<uint8_t> weight;
  DeviceBuffer<uint8_t> out;
  DeviceBuffer<int32_t> positions;
  DeviceBuffer<float> frequencies;
  Fill(size_t{2} * kIntermediate * kHidden, 0.03, &weight);
  frequencies.Upload(std::vector<float>(kHeadDim / 2, 0.1F));
  for (const int32_t num_rows : kRowCounts) {
    Fill(size_t(num_rows) * kHidden, 1, &rows);
    out.Resize(size_t(num_rows) * kAllHeads * kHeadDim * 2);
    positions.Upload(std::vector<int32_t>(num_rows, 700));

    GatedProductParams gated;
    gated.rows = rows.get();
    gated.weight = weight.get();
    gated.out = out.get();
    gated.num_rows = num_rows;
    gated.columns = kIntermediate;
    gated.inner = kHidden;
    gated.num_multiprocessors = device.num_multiprocessors;
    Report("gated", num_rows, 4.0 * num_rows * kIntermediate * kHidden,
           [&](int32_t tile_weights, cudaStream_t stream) {
             gated.tile_weights = tile_weights;
             return LaunchGatedProduct(gated, stream);
           });

    HeadProductParams heads;
    heads.rows = rows.get();
    heads.weight = weight.get();
    heads.q_weight = weight.get();
    heads.k_weight = weight.get();
    heads.position_ids = positions.get();
    heads.inverse_frequencies = frequencies.get();
    heads.out = out.get();
    heads.num_rows = num_rows;
    heads.inner = kHidden;
    heads.num_query_heads = kQueryHeads;
    heads.num_kv_heads = kKvHeads;
    heads.head_dim = kHeadDim;
    heads.epsilon = 1e-6F;
    heads.num_multiprocessors = device.num_multiprocessors;
    Report("heads", num_rows, 2.0 * num_rows * kAllHeads * kHeadDim * kHidden,
           [&](int32_t tile_weights, cudaStream_t stream) {
             heads.tile_weights = tile_weights;
             return LaunchHeadProduct(heads, stream);
           });
  }
}

}  // namespace
}  // namespace canopy::kernels::bench

int main() {
  int devices = 0;
  if (!canopy::kernels::IsBuilt() || cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
    std::printf("no CUDA device, or built without nvcc: nothing to measure\n");
    return 0;
  }
  canopy::kernels::DeviceInfo device;
  canopy::kernels::check::Require(canopy::kernels::Init(&device), "Init");
  if (device.compute_capability != 90) {
    std::printf("compute capability %d has no such kernels\n", device.compute_capability);
    return 0;
  }
  canopy::kernels::bench::BenchProducts(device);
  return 0;
}
