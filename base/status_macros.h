// Macros for early return of an absl::Status, similar to those in other projects that use abseil.
#ifndef BASE_STATUS_MACROS_H_
#define BASE_STATUS_MACROS_H_

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

// Returns from the enclosing function if `expression` is not OK.
#define CANOPY_RETURN_IF_ERROR(expression)                                  \
  do {                                                                      \
    if (absl::Status canopy_status_ = (expression); !canopy_status_.ok()) { \
      return canopy_status_;                                                \
    }                                                                       \
  } while (false)

// `target` is not in parentheses, because it may declare a variable.
// NOLINTBEGIN(bugprone-macro-parentheses)
#define CANOPY_CONCAT_INNER_(a, b) a##b
#define CANOPY_CONCAT_(a, b) CANOPY_CONCAT_INNER_(a, b)

// Assigns the value of a StatusOr to `target` (which may declare a variable), or returns its
// status.
#define CANOPY_ASSIGN_OR_RETURN(target, expression) \
  CANOPY_ASSIGN_OR_RETURN_IMPL_(CANOPY_CONCAT_(canopy_status_or_, __LINE__), target, expression)

#define CANOPY_ASSIGN_OR_RETURN_IMPL_(status_or, target, expression) \
  auto status_or = (expression);                                     \
  if (!status_or.ok()) {                                             \
    return std::move(status_or).status();                            \
  }                                                                  \
  target = std::move(status_or).value()
// NOLINTEND(bugprone-macro-parentheses)

#endif  // BASE_STATUS_MACROS_H_
