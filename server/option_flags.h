// Command-line flags that are bound to fields of option structs. The default of a flag is the value
// that its field has when the flag is made, so that each default exists once: in its struct.
//
// Fields must outlive their flags.
#ifndef SERVER_OPTION_FLAGS_H_
#define SERVER_OPTION_FLAGS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/flags/marshalling.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/enum_table.h"

namespace canopy::server {

struct OptionFlag {
  std::string name;
  std::string help;
  std::string default_text;
  bool is_switch = false;  // --name and --noname set it
  // Sets a value each time that the flag is given. Returns false if `text` has the wrong type.
  std::function<bool(absl::string_view text)> set = nullptr;
  // Checks the last value that was set, or the default, and stores it. Called once for each flag,
  // in the order of the list, after all flags of the command line were set. Null = every value is
  // valid.
  std::function<absl::Status()> check = nullptr;
  // Returns the value of the field in the unit of the flag; null unless it is a whole number.
  std::function<int64_t()> value = nullptr;
  bool is_limit = false;  // the value is shown to clients and operators
};

// The integers from `low` to `high`, inclusive.
struct FlagRange {
  int64_t low = 0;
  int64_t high = 0;
};

// Returns INVALID_ARGUMENT with the text "--FLAG: 'VALUE' is not WANTED".
absl::Status FlagError(absl::string_view flag, absl::string_view value, absl::string_view wanted);

absl::Status CheckRange(absl::string_view flag, int64_t value, FlagRange range);

OptionFlag TextFlag(std::string name, std::string* field, std::string help);
// A flag that takes HOST:PORT or an empty text.
OptionFlag AddressFlag(const std::string& name, std::string* field, std::string help);
OptionFlag SwitchFlag(std::string name, bool* field, std::string help);
// A flag that may be given several times and collects the texts, except empty ones.
OptionFlag RepeatedFlag(std::string name, std::vector<std::string>* field, std::string help);

// Returns `flag` with an additional check that runs after its own check has returned OK.
OptionFlag Checked(OptionFlag flag, std::function<absl::Status()> check);

// Returns `flag` with `is_limit` set. Precondition: flag.value is not null.
OptionFlag Limit(OptionFlag flag);

template <typename Integer>
OptionFlag IntegerFlag(const std::string& name, Integer* field, FlagRange range, std::string help) {
  OptionFlag flag{name, std::move(help), absl::StrCat(*field)};
  flag.set = [field](absl::string_view text) {
    std::string ignored;
    return absl::ParseFlag(text, field, &ignored);
  };
  flag.check = [name, field, range] { return CheckRange(name, *field, range); };
  flag.value = [field] { return int64_t{*field}; };
  return flag;
}

// An integer flag, of type Integer, that counts `unit`.
template <typename Integer>
OptionFlag DurationFlag(const std::string& name, absl::Duration* field, absl::Duration unit,
                        FlagRange range, std::string help) {
  const auto in_units = [field, unit] {
    absl::Duration ignored;
    return absl::IDivDuration(*field, unit, &ignored);
  };
  // The number is stored in its own unit, because errors show it even if absl::Duration cannot hold
  // it.
  auto count = std::make_shared<Integer>(static_cast<Integer>(in_units()));
  OptionFlag flag = IntegerFlag(name, count.get(), range, std::move(help));
  flag.check = [name, field, unit, range, count] {
    *field = *count * unit;
    return CheckRange(name, *count, range);
  };
  flag.value = in_units;
  return flag;
}

// The names of a flag's values, and the value of each name.
template <typename T>
using FlagChoices = std::vector<std::pair<std::string, T>>;

// Returns the values of an enum by their names.
template <typename Enum, size_t N>
FlagChoices<Enum> ChoicesOf(const NamedValue<Enum> (&rows)[N]) {
  FlagChoices<Enum> choices;
  for (const auto& [value, name] : rows) {
    choices.emplace_back(name, value);
  }
  return choices;
}

template <typename T>
OptionFlag ChoiceFlag(const std::string& name, T* field, FlagChoices<T> choices, std::string help) {
  auto text = std::make_shared<std::string>();
  for (const auto& [word, value] : choices) {
    if (value == *field) {
      *text = word;
      break;
    }
  }
  OptionFlag flag = TextFlag(name, text.get(), std::move(help));
  flag.check = [name, field, text, choices = std::move(choices)] {
    std::vector<std::string> words;
    for (const auto& [word, value] : choices) {
      if (word == *text) {
        *field = value;
        return absl::OkStatus();
      }
      words.push_back(word);
    }
    return FlagError(name, *text, absl::StrCat("one of: ", absl::StrJoin(words, ", ")));
  };
  return flag;
}

}  // namespace canopy::server

#endif  // SERVER_OPTION_FLAGS_H_
