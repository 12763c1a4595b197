#include "core/checkpoint/testing/test_files.h"

#include <pthread.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace canopy {

TemporaryFolder::TemporaryFolder() : path_(::testing::TempDir() + "/canopy_model_XXXXXX") {
  EXPECT_NE(mkdtemp(path_.data()), nullptr);
}

TemporaryFolder::~TemporaryFolder() { std::filesystem::remove_all(path_); }

std::string TemporaryFolder::Join(absl::string_view name) const {
  return absl::StrCat(path_, "/", name);
}

std::string TemporaryFolder::Write(absl::string_view name, absl::string_view contents) const {
  std::string file = Join(name);
  std::ofstream out(file, std::ios::binary);
  out.write(contents.data(), static_cast<std::streamsize>(contents.size()));
  out.close();
  EXPECT_TRUE(out.good()) << file;
  return file;
}

namespace {

// Returns the previous size.
size_t SetStackBytesOfNewThreads(size_t bytes) {
  pthread_attr_t attributes;
  size_t before = 0;
  EXPECT_EQ(pthread_getattr_default_np(&attributes), 0);
  EXPECT_EQ(pthread_attr_getstacksize(&attributes, &before), 0);
  EXPECT_EQ(pthread_attr_setstacksize(&attributes, bytes), 0);
  EXPECT_EQ(pthread_setattr_default_np(&attributes), 0);
  pthread_attr_destroy(&attributes);
  return before;
}

}  // namespace

// A stack of 2^47 bytes does not fit into the address space, so no thread can start. A limit on
// processes would not apply to root.
NoNewThreads::NoNewThreads() : stack_bytes_(SetStackBytesOfNewThreads(size_t{1} << 47)) {}

NoNewThreads::~NoNewThreads() { SetStackBytesOfNewThreads(stack_bytes_); }

std::string SafetensorsFile(absl::string_view header, absl::string_view data) {
  std::string file;
  uint64_t length = header.size();
  for (int i = 0; i < 8; ++i, length >>= 8) {
    file += static_cast<char>(length & 0xff);
  }
  absl::StrAppend(&file, header, data);
  return file;
}

std::string SafetensorsEntry(absl::string_view name, absl::string_view dtype,
                             absl::string_view shape, int64_t begin, int64_t end) {
  return absl::StrCat("\"", name, "\":{\"dtype\":\"", dtype, "\",\"shape\":", shape,
                      ",\"data_offsets\":[", begin, ",", end, "]}");
}

}  // namespace canopy
