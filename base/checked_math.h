// Integer arithmetic that reports overflow. Sizes from the network are multiplied before they are
// compared with limits.
#ifndef BASE_CHECKED_MATH_H_
#define BASE_CHECKED_MATH_H_

#include <cstdint>
#include <limits>
#include <optional>

namespace canopy {

// Returns a * b, or nullopt if the product overflows.
inline std::optional<int64_t> CheckedMultiply(int64_t a, int64_t b) {
  int64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) {
    return std::nullopt;
  }
  return product;
}

// Returns a + b, or nullopt if the sum overflows.
inline std::optional<int64_t> CheckedAdd(int64_t a, int64_t b) {
  int64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) {
    return std::nullopt;
  }
  return sum;
}

// Returns a * b for non-negative factors, clamped to the largest int64. Use it for counts that are
// only compared with limits.
inline int64_t SaturatingMultiply(int64_t a, int64_t b) {
  return CheckedMultiply(a, b).value_or(std::numeric_limits<int64_t>::max());
}

// Returns a + b for non-negative numbers, clamped to the largest int64.
inline int64_t SaturatingAdd(int64_t a, int64_t b) {
  return CheckedAdd(a, b).value_or(std::numeric_limits<int64_t>::max());
}

}  // namespace canopy

#endif  // BASE_CHECKED_MATH_H_
