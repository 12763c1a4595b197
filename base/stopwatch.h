// Elapsed time on the monotonic clock: wall-clock jumps never show in a measured stage.
#ifndef BASE_STOPWATCH_H_
#define BASE_STOPWATCH_H_

#include <chrono>

namespace canopy {

// Starts when made. Thread-compatible.
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
