// The small layer kernels in double precision on the host, on dense arrays of one row or head.
#ifndef KERNELS_REFERENCE_LAYER_REFERENCE_H_
#define KERNELS_REFERENCE_LAYER_REFERENCE_H_

#include <cstdint>
#include <vector>

namespace canopy::kernels::reference {

// row / sqrt(mean(row^2) + epsilon) * weight.
std::vector<double> RmsNorm(const std::vector<double>& row, const std::vector<double>& weight,
                            double epsilon);

// Turns each pair (i, i + size / 2) of a head by position x inverse_frequencies[i]. The angle is
// the float32 product, as models are trained with.
std::vector<double> Rope(const std::vector<double>& head, int32_t position,
                         const std::vector<float>& inverse_frequencies);

// silu of the first half times the second.
std::vector<double> SiluMul(const std::vector<double>& gate_up);

struct LogitStats {
  double log_sum_exp = 0;  // of logits / temperature
  double entropy = 0;      // of their softmax, in nats
  double min_logit = 0;    // raw
  double max_logit = 0;
};
LogitStats ReadLogits(const std::vector<double>& logits, double temperature);

// Returns 1 + the number of logits that are larger than that of `column`, or equal and in a lower
// column; -1 if a logit is not finite.
int32_t RankOf(const std::vector<double>& logits, int32_t column);

}  // namespace canopy::kernels::reference

#endif  // KERNELS_REFERENCE_LAYER_REFERENCE_H_
