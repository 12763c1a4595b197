// Thin wrappers of Hopper instructions that have no CUDA C++ function: transaction barriers, the
// bulk tensor copy engine (TMA) and warpgroup matrix products. Only for sm_90a.
#ifndef KERNELS_PRIMITIVES_HOPPER_PTX_CUH_
#define KERNELS_PRIMITIVES_HOPPER_PTX_CUH_

#include <cuda.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

namespace canopy::kernels::hopper {

__device__ __forceinline__ uint32_t SharedAddress(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

// --- Barriers in shared memory, identified by their 32-bit shared address.

__device__ __forceinline__ void InitBarrier(uint32_t barrier, uint32_t arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}

__device__ __forceinline__ void FenceBarrierInit() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

__device__ __forceinline__ void Arrive(uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

// Arrives, and makes the phase also wait for `bytes` of copies.
__device__ __forceinline__ void ArriveExpect(uint32_t barrier, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
               : "memory");
}

// Returns when the phase with this parity is complete.
__device__ __forceinline__ void Wait(uint32_t barrier, uint32_t parity) {
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "again:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra again;\n"
      "}\n" ::"r"(barrier),
      "r"(parity)
      : "memory");
}

// Arrives at the barrier at the same address in the shared memory of block `rank` of the cluster.
// Does not make earlier ordinary writes visible there: that would need a device-wide fence, which
// takes 0.5 us.
__device__ __forceinline__ void ArriveAt(uint32_t barrier, uint32_t rank) {
  asm volatile(
      "{\n"
      ".reg .b32 remote;\n"
      "mapa.shared::cluster.u32 remote, %0, %1;\n"
      "mbarrier.arrive.shared::cluster.b64 _, [remote];\n"
      "}\n" ::"r"(barrier),
      "r"(rank)
      : "memory");
}

__device__ __forceinline__ uint32_t ClusterRank() {
  uint32_t rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}

// Waits for all threads of the cluster. Makes initialized barriers visible (with FenceBarrierInit),
// but not ordinary writes.
__device__ __forceinline__ void SyncCluster() {
  asm volatile("barrier.cluster.arrive.relaxed;\nbarrier.cluster.wait.acquire;" ::: "memory");
}

// Waits for `threads` threads that use the same named barrier (1..15).
__device__ __forceinline__ void SyncNamed(uint32_t barrier, uint32_t threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}

// --- Copies.

__device__ __forceinline__ void LoadBox2(uint32_t target, const CUtensorMap& map, uint32_t barrier,
                                         int32_t c0, int32_t c1) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%3, %4}], [%2];" ::"r"(target),
      "l"(&map), "r"(barrier), "r"(c0), "r"(c1)
      : "memory");
}

// Copies to the same address in every block of the cluster whose bit is set, and signals its
// barrier.
__device__ __forceinline__ void LoadBox2ToBlocks(uint32_t target, const CUtensorMap& map,
                                                 uint32_t barrier, int32_t c0, int32_t c1,
                                                 uint16_t blocks) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
      ".multicast::cluster [%0], [%1, {%3, %4}], [%2], %5;" ::"r"(target),
      "l"(&map), "r"(barrier), "r"(c0), "r"(c1), "h"(blocks)
      : "memory");
}

__device__ __forceinline__ void LoadBox4(uint32_t target, const CUtensorMap& map, uint32_t barrier,
                                         int32_t c0, int32_t c1, int32_t c2, int32_t c3) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%3, %4, %5, %6}], [%2];" ::"r"(target),
      "l"(&map), "r"(barrier), "r"(c0), "r"(c1), "r"(c2), "r"(c3)
      : "memory");
}

__device__ __forceinline__ void LoadBox5(uint32_t target, const CUtensorMap& map, uint32_t barrier,
                                         int32_t c2, int32_t c3, int32_t c4) {
  asm volatile(
      "cp.async.bulk.tensor.5d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%3, %3, %4, %5, %6}], [%2];" ::"r"(target),
      "l"(&map), "r"(barrier), "r"(0), "r"(c2), "r"(c3), "r"(c4)
      : "memory");
}

__device__ __forceinline__ void StoreBox5(uint32_t source, const CUtensorMap& map, int32_t c2,
                                          int32_t c3, int32_t c4) {
  asm volatile(
      "cp.async.bulk.tensor.5d.global.shared::cta.tile.bulk_group "
      "[%1, {%2, %2, %3, %4, %5}], [%0];" ::"r"(source),
      "l"(&map), "r"(0), "r"(c2), "r"(c3), "r"(c4)
      : "memory");
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

__device__ __forceinline__ void StoreBox2(uint32_t source, const CUtensorMap& map, int32_t c0,
                                          int32_t c1) {
  asm volatile(
      "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%1, {%2, %3}], [%0];" ::"r"(
          source),
      "l"(&map), "r"(c0), "r"(c1)
      : "memory");
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

// Returns when this thread's stores have finished reading shared memory.
__device__ __forceinline__ void WaitStoresRead() {
  asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
}

__device__ __forceinline__ void LoadBytes(uint32_t target, const void* source, uint32_t bytes,
                                          uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
          "r"(target),
      "l"(source), "r"(bytes), "r"(barrier)
      : "memory");
}

__device__ __forceinline__ void PrefetchMap(const CUtensorMap& map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
}

// Orders earlier ordinary shared-memory stores before later reads by the copy engine.
__device__ __forceinline__ void FenceAsyncProxy() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// Stores four 8 x 8 matrices of 16-bit elements. Lane l gives the address of row l % 8 of matrix l
// / 8.
__device__ __forceinline__ void StoreMatrices(uint32_t address, uint32_t a, uint32_t b, uint32_t c,
                                              uint32_t d) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address),
               "r"(a), "r"(b), "r"(c), "r"(d)
               : "memory");
}

// --- Registers of a warpgroup.

template <int kRegisters>
__device__ __forceinline__ void GrowRegisters() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}
template <int kRegisters>
__device__ __forceinline__ void ShrinkRegisters() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

// --- Matrix products of a warpgroup: d[64 x N] (+)= a[64 x 16] b[16 x N], float32 accumulators.

__device__ __forceinline__ void FenceProducts() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
__device__ __forceinline__ void CommitProducts() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
// Waits until at most `kPending` committed groups are unfinished.
template <int kPending>
__device__ __forceinline__ void WaitProducts() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}

// Prevents the compiler from moving uses of accumulators across products in flight.
template <int kCount>
__device__ __forceinline__ void Pin(float (&registers)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    asm volatile("" : "+f"(registers[i])::"memory");
  }
}

// Describes an operand in shared memory with the 128-byte swizzle. `leading` and `stride` are byte
// offsets as defined by PTX. For a row-major (K-major) operand only `stride`, the distance of 8-row
// groups, is used; for a transposed one `leading` is the distance of 64-column halves. Only the low
// word depends on the address, so that advancing to the next operand is one addition.
struct OperandDescriptor {
  uint32_t low;
  uint32_t high;

  __device__ __forceinline__ OperandDescriptor(uint32_t address, uint32_t leading, uint32_t stride)
      : low((leading >> 4 << 16) | (address >> 4)), high((uint32_t{1} << 30) | (stride >> 4)) {}
  __device__ __forceinline__ uint64_t At(uint32_t offset_bytes) const {
    return uint64_t{high} << 32 | (low + (offset_bytes >> 4));
  }
};

#define CANOPY_ACC8(d, i)                                                                     \
  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), \
      "+f"(d[i + 6]), "+f"(d[i + 7])
#define CANOPY_ACC32(d, i) \
  CANOPY_ACC8(d, i), CANOPY_ACC8(d, i + 8), CANOPY_ACC8(d, i + 16), CANOPY_ACC8(d, i + 24)
#define CANOPY_REG32                                                    \
  "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%" \
  "19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31"
#define CANOPY_REG40 CANOPY_REG32 ",%32,%33,%34,%35,%36,%37,%38,%39"
#define CANOPY_REG64                                                                             \
  CANOPY_REG40                                                                                   \
  ",%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62" \
  ",%63"
#define CANOPY_REG128                                                                             \
  CANOPY_REG64                                                                                    \
  ",%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79,%80,%81,%82,%83,%84,%85,%86," \
  "%87,%88,%89,%90,%91,%92,%93,%94,%95,%96,%97,%98,%99,%100,%101,%102,%103,%104,%105,%106,%107,"  \
  "%108,%109,%110,%111,%112,%113,%114,%115,%116,%117,%118,%119,%120,%121,%122,%123,%124,%125,"    \
  "%126,%127"

// a and b are in shared memory, both K-major. If `accumulate` is false, d is overwritten.
#define CANOPY_DEFINE_SHARED_PRODUCT(TYPE, NAME, N, COUNT, REGISTERS, A, B, P, ...)            \
  __device__ __forceinline__ void NAME(float(&d)[COUNT], uint64_t a, uint64_t b,               \
                                       bool accumulate) {                                      \
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, " P                                         \
                 ", 0;\n"                                                                      \
                 "wgmma.mma_async.sync.aligned.m64n" N "k16.f32." TYPE "." TYPE " {" REGISTERS \
                 "}, " A ", " B ", p, 1, 1, 0, 0;\n}\n"                                        \
                 : __VA_ARGS__                                                                 \
                 : "l"(a), "l"(b), "r"(static_cast<int32_t>(accumulate)));                     \
  }

CANOPY_DEFINE_SHARED_PRODUCT("bf16", SharedProductBf16, "64", 32, CANOPY_REG32, "%32", "%33", "%34",
                             CANOPY_ACC32(d, 0))
CANOPY_DEFINE_SHARED_PRODUCT("f16", SharedProductF16, "64", 32, CANOPY_REG32, "%32", "%33", "%34",
                             CANOPY_ACC32(d, 0))
CANOPY_DEFINE_SHARED_PRODUCT("bf16", SharedProductBf16, "80", 40, CANOPY_REG40, "%40", "%41", "%42",
                             CANOPY_ACC32(d, 0), CANOPY_ACC8(d, 32))
CANOPY_DEFINE_SHARED_PRODUCT("f16", SharedProductF16, "80", 40, CANOPY_REG40, "%40", "%41", "%42",
                             CANOPY_ACC32(d, 0), CANOPY_ACC8(d, 32))
CANOPY_DEFINE_SHARED_PRODUCT("bf16", SharedProductBf16, "128", 64, CANOPY_REG64, "%64", "%65",
                             "%66", CANOPY_ACC32(d, 0), CANOPY_ACC32(d, 32))
CANOPY_DEFINE_SHARED_PRODUCT("f16", SharedProductF16, "128", 64, CANOPY_REG64, "%64", "%65", "%66",
                             CANOPY_ACC32(d, 0), CANOPY_ACC32(d, 32))
CANOPY_DEFINE_SHARED_PRODUCT("bf16", SharedProductBf16, "256", 128, CANOPY_REG128, "%128", "%129",
                             "%130", CANOPY_ACC32(d, 0), CANOPY_ACC32(d, 32), CANOPY_ACC32(d, 64),
                             CANOPY_ACC32(d, 96))
CANOPY_DEFINE_SHARED_PRODUCT("f16", SharedProductF16, "256", 128, CANOPY_REG128, "%128", "%129",
                             "%130", CANOPY_ACC32(d, 0), CANOPY_ACC32(d, 32), CANOPY_ACC32(d, 64),
                             CANOPY_ACC32(d, 96))

template <typename Element, int kCount>
__device__ __forceinline__ void SharedProduct(float (&d)[kCount], uint64_t a, uint64_t b,
                                              bool accumulate) {
  if constexpr (std::is_same_v<Element, __half>) {
    SharedProductF16(d, a, b, accumulate);
  } else {
    SharedProductBf16(d, a, b, accumulate);
  }
}

// a is in registers. b is in shared memory and transposed: its rows are the summed dimension.
#define CANOPY_DEFINE_REGISTER_PRODUCT(TYPE, NAME, N, COUNT, REGISTERS, A, B, P, ...)          \
  __device__ __forceinline__ void NAME(float(&d)[COUNT], const uint32_t* a, uint64_t b,        \
                                       bool accumulate) {                                      \
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, " P                                         \
                 ", 0;\n"                                                                      \
                 "wgmma.mma_async.sync.aligned.m64n" N "k16.f32." TYPE "." TYPE " {" REGISTERS \
                 "}, " A ", " B ", p, 1, 1, 1;\n}\n"                                           \
                 : __VA_ARGS__                                                                 \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b),                         \
                   "r"(static_cast<int32_t>(accumulate)));                                     \
  }

CANOPY_DEFINE_REGISTER_PRODUCT("bf16", RegisterProductBf16, "128", 64, CANOPY_REG64,
                               "{%64,%65,%66,%67}", "%68", "%69", CANOPY_ACC32(d, 0),
                               CANOPY_ACC32(d, 32))
CANOPY_DEFINE_REGISTER_PRODUCT("f16", RegisterProductF16, "128", 64, CANOPY_REG64,
                               "{%64,%65,%66,%67}", "%68", "%69", CANOPY_ACC32(d, 0),
                               CANOPY_ACC32(d, 32))
CANOPY_DEFINE_REGISTER_PRODUCT("bf16", RegisterProductBf16, "64", 32, CANOPY_REG32,
                               "{%32,%33,%34,%35}", "%36", "%37", CANOPY_ACC32(d, 0))
CANOPY_DEFINE_REGISTER_PRODUCT("f16", RegisterProductF16, "64", 32, CANOPY_REG32,
                               "{%32,%33,%34,%35}", "%36", "%37", CANOPY_ACC32(d, 0))

#undef CANOPY_DEFINE_SHARED_PRODUCT
#undef CANOPY_DEFINE_REGISTER_PRODUCT
#undef CANOPY_ACC8
#undef CANOPY_ACC32
#undef CANOPY_REG32
#undef CANOPY_REG40
#undef CANOPY_REG64
#undef CANOPY_REG128

}  // namespace canopy::kernels::hopper

#endif  // KERNELS_PRIMITIVES_HOPPER_PTX_CUH_
