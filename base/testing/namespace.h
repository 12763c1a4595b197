// This header is included first in every test by canopy_cc_test.
//
// Inside namespace canopy, `testing::` means canopy::testing if that namespace is declared, and
// GoogleTest's namespace otherwise. Declaring it in every test makes sure that `testing::` instead
// of `::testing::` does not compile, whatever the test includes.
#ifndef BASE_TESTING_NAMESPACE_H_
#define BASE_TESTING_NAMESPACE_H_

namespace canopy::testing {}

#endif  // BASE_TESTING_NAMESPACE_H_
