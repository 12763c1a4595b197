// A test fixture that gives each test a folder of its own, and helpers to inspect files.
#ifndef BASE_TESTING_FILE_TEST_H_
#define BASE_TESTING_FILE_TEST_H_

#include <stdlib.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace canopy::testing {

// The fixture creates the folder `folder_` and deletes it at the end of the test.
class FileTest : public ::testing::Test {
 protected:
  FileTest() {
    const char* parent = std::getenv("TEST_TMPDIR");
    std::string name = absl::StrCat(parent == nullptr ? "/tmp" : parent, "/file_test.XXXXXX");
    folder_ = mkdtemp(name.data());
  }
  ~FileTest() override { std::filesystem::remove_all(folder_); }

  std::string Join(const std::string& name) const { return absl::StrCat(folder_, "/", name); }

  std::set<std::string> Names() const {
    std::set<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
      names.insert(entry.path().filename().string());
    }
    return names;
  }

  static std::string Read(const std::string& path) {
    std::ifstream file(path);
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
  }

  static mode_t ModeOf(const std::string& path) {
    struct stat info = {};
    EXPECT_EQ(stat(path.c_str(), &info), 0);
    return info.st_mode & 0777;
  }

  std::string folder_;
};

}  // namespace canopy::testing

#endif  // BASE_TESTING_FILE_TEST_H_
