// Every field of canopy.v1.Outputs has a flag with its name, which sets the field.
#include <string>
#include <vector>

#include "absl/flags/commandlineflag.h"
#include "absl/flags/reflection.h"
#include "absl/strings/str_cat.h"
#include "client/cli/command_line.h"
#include "client/cli/request_flags.h"
#include "client/output_fields.h"
#include "gtest/gtest.h"

namespace canopy::client {
namespace {

// Returns a value for the field's flag that differs from the flag's default.
std::string ValueOf(const Field& field) {
  switch (field.cpp_type()) {
    case Field::CPPTYPE_BOOL:
      return "true";
    case Field::CPPTYPE_UINT32:
      return "3";
    case Field::CPPTYPE_FLOAT:
      return "0.5";
    case Field::CPPTYPE_ENUM:
      return field.name() == "scope" ? "path" : "float16";
    default:
      return "";
  }
}

TEST(OutputFlagsTest, EachFlagSetsOnlyItsField) {
  const google::protobuf::Descriptor& outputs = *v1::Outputs::descriptor();
  for (int i = 0; i < outputs.field_count(); ++i) {
    const Field& field = *outputs.field(i);
    for (const std::string command : {"score", "explain"}) {
      const auto line =
          ParseCommandLine({command, absl::StrCat("--", field.name(), "=", ValueOf(field))});
      ASSERT_TRUE(line.ok()) << line.status();
      v1::ScoreRequest request;
      ASSERT_TRUE(FillFromFlags(&request).ok());
      std::vector<const Field*> set;
      v1::Outputs::GetReflection()->ListFields(request.outputs(), &set);
      EXPECT_EQ(set, std::vector<const Field*>{&field}) << field.name();
    }
    EXPECT_NE(absl::FindCommandLineFlag(field.name())->Help(), "") << field.name();
  }
}

}  // namespace
}  // namespace canopy::client
