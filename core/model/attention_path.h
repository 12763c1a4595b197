// The reference backend: each row is one right-padded path with causal attention.
#ifndef CORE_MODEL_ATTENTION_PATH_H_
#define CORE_MODEL_ATTENTION_PATH_H_

#include <cstdint>

#include "core/model/attention_backend.h"

namespace canopy {

// Needs no mask for padding: padding is to the right of a path, and causal tokens read only to the
// left.
class PathAttention : public AttentionBackend {
 public:
  // A token reads the last `window` tokens up to and including itself; 0 = all tokens.
  PathAttention(int64_t rows, int64_t columns, int64_t window = 0, double dropout = 0)
      : rows_(rows), columns_(columns), window_(window), dropout_(dropout) {}

  at::Tensor Forward(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) const override;

 private:
  const int64_t rows_;
  const int64_t columns_;
  const int64_t window_;
  const double dropout_;
};

}  // namespace canopy

#endif  // CORE_MODEL_ATTENTION_PATH_H_
