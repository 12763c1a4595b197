// The first lines of every test, put there by canopy_cc_test.
//
// Inside canopy, `testing::` means canopy::testing wherever that namespace is declared, and
// GoogleTest's otherwise. With it declared always, a test that forgot the colons of `::testing::`
// does not compile, whatever it includes.
#ifndef BASE_TESTING_NAMESPACE_H_
#define BASE_TESTING_NAMESPACE_H_

namespace canopy::testing {}

#endif  // BASE_TESTING_NAMESPACE_H_
