// Measures elapsed time on the monotonic clock, so jumps of the wall clock have no effect.
#ifndef BASE_STOPWATCH_H_
#define BASE_STOPWATCH_H_

#include <chrono>

namespace canopy {

// The constructor starts the stopwatch. Thread-compatible.
class Stopwatch {
 public:
  Stopwatch() : start_(std::chrono::steady_clock::now()) {}

  double ElapsedMs() const {
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start_)
        .count();
  }

 private:
  std::chrono::steady_clock::time_point start_;
};

}  // namespace canopy

#endif  // BASE_STOPWATCH_H_
