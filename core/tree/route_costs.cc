#include "core/tree/route_costs.h"

#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <optional>
#include <vector>

namespace canopy {
namespace {

constexpr size_t kNumFeatures = 4;
using Features = std::array<double, kNumFeatures>;

// Features are ordered so that, when samples fit several of them equally well, the first one
// predicts other sizes best.
Features FeaturesOf(const RouteLoad& load) {
  return {static_cast<double>(load.tokens), static_cast<double>(load.forwards),
          static_cast<double>(load.pairs), static_cast<double>(load.groups)};
}

double Dot(const Features& a, const Features& b) {
  double sum = 0;
  for (size_t i = 0; i < kNumFeatures; ++i) {
    sum += a[i] * b[i];
  }
  return sum;
}

// The rows of a linear system: features divided by the measured time. All right-hand sides are 1.
using Rows = std::vector<Features>;

// Returns the least-squares solution that uses only the features in `used`, or nullopt if these
// features are linearly dependent.
std::optional<Features> Solve(const Rows& rows, const std::vector<size_t>& used) {
  // These are the normal equations, with each feature scaled to unit norm and the right-hand side
  // as the last column.
  const size_t size = used.size();
  std::vector<std::vector<double>> matrix(size, std::vector<double>(size + 1));
  std::vector<double> norm(size);
  for (size_t i = 0; i < size; ++i) {
    for (const Features& row : rows) {
      norm[i] += row[used[i]] * row[used[i]];
    }
    norm[i] = std::sqrt(norm[i]);
    if (norm[i] == 0) {
      return std::nullopt;
    }
  }
  for (const Features& row : rows) {
    for (size_t i = 0; i < size; ++i) {
      const double scaled = row[used[i]] / norm[i];
      for (size_t j = 0; j < size; ++j) {
        matrix[i][j] += scaled * row[used[j]] / norm[j];
      }
      matrix[i][size] += scaled;
    }
  }
  constexpr double kLeastPivot = 1e-9;
  for (size_t pivot = 0; pivot < size; ++pivot) {
    // The matrix is positive definite, so no row swaps are needed.
    if (matrix[pivot][pivot] < kLeastPivot) {
      return std::nullopt;
    }
    for (size_t row = 0; row < size; ++row) {
      const double factor = row == pivot ? 0 : matrix[row][pivot] / matrix[pivot][pivot];
      for (size_t column = pivot; column <= size; ++column) {
        matrix[row][column] -= factor * matrix[pivot][column];
      }
    }
  }
  Features solution = {};
  for (size_t i = 0; i < size; ++i) {
    solution[used[i]] = matrix[i][size] / matrix[i][i] / norm[i];
  }
  return solution;
}

bool IsNonNegative(const Features& solution) {
  for (const double value : solution) {
    if (!(value >= 0)) {
      return false;
    }
  }
  return true;
}

double SquaredError(const Rows& rows, const Features& solution) {
  double error = 0;
  for (const Features& row : rows) {
    error += std::pow(Dot(row, solution) - 1, 2);
  }
  return error;
}

}  // namespace

double ForecastMs(const BackendCost& cost, const RouteLoad& load) {
  return Dot({cost.token_ms, cost.forward_ms, cost.pair_ms, cost.group_ms}, FeaturesOf(load));
}

BackendCost FitCost(absl::Span<const CostSample> samples) {
  Rows rows;
  for (const CostSample& sample : samples) {
    Features row = FeaturesOf(sample.load);
    for (double& value : row) {
      value /= sample.ms;
    }
    rows.push_back(row);
  }
  // The best non-negative solution is the least-squares solution over some subset of the features.
  // There are only four features, so all subsets are tried, small ones first. A larger subset must
  // be clearly better to replace a smaller one.
  constexpr double kClearlyBetter = 1 - 1e-6;
  Features best = {};
  double best_error = std::numeric_limits<double>::infinity();
  for (size_t size = 0; size <= kNumFeatures; ++size) {
    for (size_t set = 0; set < size_t{1} << kNumFeatures; ++set) {
      std::vector<size_t> used;
      for (size_t feature = 0; feature < kNumFeatures; ++feature) {
        if ((set >> feature & 1) != 0) {
          used.push_back(feature);
        }
      }
      const std::optional<Features> solution =
          used.size() == size ? Solve(rows, used) : std::nullopt;
      if (solution.has_value() && IsNonNegative(*solution)) {
        const double error = SquaredError(rows, *solution);
        if (error < best_error * kClearlyBetter) {
          best = *solution;
          best_error = error;
        }
      }
    }
  }
  BackendCost cost;
  cost.token_ms = best[0];
  cost.forward_ms = best[1];
  cost.pair_ms = best[2];
  cost.group_ms = best[3];
  return cost;
}

}  // namespace canopy
