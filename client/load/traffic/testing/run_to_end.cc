#include "client/load/traffic/testing/run_to_end.h"

#include "gtest/gtest.h"

namespace canopy::client {

LoadResult RunToEnd(const DriverOptions& options, RequestPool* pool, Interval* interval) {
  LoadDriver driver(options, pool);
  driver.Start();
  EXPECT_TRUE(driver.WaitUntilDone(kForever));
  if (interval != nullptr) {
    *interval = driver.TakeInterval();
  }
  LoadResult result = driver.Finish();
  EXPECT_TRUE(result.CheckTotals().ok()) << result.CheckTotals();
  return result;
}

}  // namespace canopy::client
