// The small layer kernels in double precision on the host, for one dense row or head.
#ifndef KERNELS_REFERENCE_LAYER_REFERENCE_H_
#define KERNELS_REFERENCE_LAYER_REFERENCE_H_

#include <cstdint>
#include <vector>

namespace canopy::kernels::reference {

// Returns row / sqrt(mean(row^2) + epsilon) * weight.
std::vector<double> RmsNorm(const std::vector<double>& row, const std::vector<double>& weight,
                            double epsilon);

// Rotates each pair (i, i + size / 2) of a head by position x inverse_frequencies[i]. The angle is
// computed in float32, as in the training of models.
std::vector<double> Rope(const std::vector<double>& head, int32_t position,
                         const std::vector<float>& inverse_frequencies);

// Returns silu of the first half times the second half.
std::vector<double> SiluMul(const std::vector<double>& gate_up);

struct LogitStats {
  double log_sum_exp = 0;  // log-sum-exp of logits / temperature
  double entropy = 0;      // entropy of their softmax, in nats
  double min_logit = 0;    // raw logit
  double max_logit = 0;
};
LogitStats ReadLogits(const std::vector<double>& logits, double temperature);

// Returns 1 + the number of logits that are larger than the one at `column`, or equal in a lower
// column. Returns -1 if a logit is not finite.
int32_t RankOf(const std::vector<double>& logits, int32_t column);

}  // namespace canopy::kernels::reference

#endif  // KERNELS_REFERENCE_LAYER_REFERENCE_H_
