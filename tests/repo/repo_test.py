"""Tests that the repository checks find violations: each case plants one."""

import json
import subprocess
import tempfile
import time
import unittest
from pathlib import Path
from typing import Any
from unittest import mock

import count_results
import defaults
import layering
import result_cache
import structure
import tidy


class LayeringTest(unittest.TestCase):
    def found(self, path: str, include: str) -> list[str]:
        return list(layering.violations(path, f'#include "{include}"\n'))

    def test_data_flows_one_way(self) -> None:
        self.assertFalse(self.found("core/model/a.cc", "core/tree/trie.h"))
        self.assertTrue(self.found("core/tree/a.cc", "core/checkpoint/checkpoint.h"))
        self.assertTrue(self.found("base/a.h", "core/tree/trie.h"))
        self.assertTrue(self.found("server/a.cc", "core/checkpoint/checkpoint.h"))

    def test_the_client_never_includes_core(self) -> None:
        self.assertFalse(self.found("client/a.cc", "canopy/v1/types.pb.h"))
        self.assertFalse(self.found("client/a.cc", "base/logging.h"))
        self.assertTrue(self.found("client/a.cc", "core/tree/trie.h"))
        self.assertTrue(self.found("core/tree/a.cc", "canopy/v1/types.pb.h"))

    def test_libraries_stay_in_their_folders(self) -> None:
        self.assertTrue(self.found("core/tree/a.cc", "ATen/Tensor.h"))
        self.assertTrue(self.found("core/engine/a.cc", "ATen/Tensor.h"))
        self.assertTrue(self.found("core/runtime/a.h", "ATen/Tensor.h"))
        self.assertFalse(self.found("core/runtime/a.cc", "ATen/Tensor.h"))
        self.assertFalse(self.found("core/runtime/torch_runner.cc", "core/runtime/part_heads.h"))
        self.assertTrue(self.found("core/engine/engine.cc", "core/runtime/part_heads.h"))
        self.assertTrue(self.found("core/engine/a.cc", "grpcpp/grpcpp.h"))

    def test_locks_are_those_of_base(self) -> None:
        self.assertFalse(self.found("server/rpc/a.cc", "base/mutex.h"))
        self.assertTrue(self.found("server/rpc/a.cc", "absl/synchronization/mutex.h"))
        self.assertTrue(self.found("core/engine/a_test.cc", "condition_variable"))

    def test_only_tests_include_tests(self) -> None:
        self.assertTrue(self.found("server/a.cc", "tests/testing/fake_runner.h"))
        self.assertFalse(self.found("server/a_test.cc", "tests/testing/fake_runner.h"))


class TidyTest(unittest.TestCase):
    def test_each_file_is_of_one_kind_and_changed_kinds_come_first(self) -> None:
        names = [f"client/{i}.cc" for i in range(60)]
        names += ["server/net/a.cc", "server/net/a_test.cc", "base/b.cc", "core/tree/c.cc"]
        ordered = tidy.kinds(map(Path, names), [Path("core/tree/c.h")])
        self.assertCountEqual([path for kind in ordered for path in kind], map(Path, names))
        self.assertEqual(ordered[0], [Path("base/b.cc"), Path("core/tree/c.cc")])
        self.assertEqual(len(ordered[1]), 60)
        self.assertEqual(len(ordered), 4)

    def test_edits_during_a_check_are_noticed(self) -> None:
        self.assertTrue(tidy.is_edited_since(0))
        self.assertFalse(tidy.is_edited_since(time.time() + 1000))

    def test_warnings_are_no_reason_for_another_unit(self) -> None:
        files = [Path("a.cc"), Path("b.cc")]
        self.assertFalse(tidy.apart("./b.cc:1:2: warning: found", files))

    def test_a_file_that_does_not_compile_after_others_goes_apart(self) -> None:
        files = [Path("a.cc"), Path("b.cc"), Path("c.cc")]
        error = "error: redefinition of 'x'"
        self.assertEqual([files[1]], tidy.apart(f"./b.cc:1:2: {error}", files))
        self.assertEqual([files[1]], tidy.apart(f"{tidy.ROOT}/b.cc:1:2: {error}", files))

    def test_an_error_in_a_header_halves_the_unit(self) -> None:
        files = [Path("a.cc"), Path("b.cc"), Path("c.cc"), Path("d.cc")]
        error = "./h.h:1:2: error: reference to 'x' is ambiguous"
        self.assertEqual(files[2:], tidy.apart(error, files))


class TidyRunTest(unittest.TestCase):
    """These tests run clang-tidy on a few lines."""

    FLAGS = ("-std=c++17", "-I.", *tidy.WARNINGS)
    STATE = """#include "base/mutex.h"
struct State {
  canopy::Mutex mutex;
  int value %s = 0;
};
"""
    GUARDED = STATE % "ABSL_GUARDED_BY(mutex)"
    READ = """
int Read(State& state) {
  %s
  return state.value;
}
"""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.results = result_cache.ResultCache(self.folder / "cache")

    def write(self, name: str, text: str) -> Path:
        (self.folder / name).write_text(text)
        tidy.file_hash.cache_clear()
        return self.folder / name

    def tidy(self, *files: Path) -> list[str]:
        return tidy.tidy(list(files), list(self.FLAGS), self.results)

    def test_a_guarded_field_that_is_read_without_its_mutex(self) -> None:
        locked = "canopy::MutexLock lock(&state.mutex);"
        self.assertEqual([], self.tidy(self.write("a.cc", self.GUARDED + self.READ % locked)))
        found = self.tidy(self.write("b.cc", self.GUARDED + self.READ % ""))
        self.assertRegex("".join(found), r"b\.cc:\d+:.*\[clang-diagnostic-thread-safety-analysis")

    def test_a_clean_unit_is_checked_again_when_its_header_changes(self) -> None:
        self.write("state.h", self.STATE % "")
        source = self.write("a.cc", '#include "state.h"\n' + self.READ % "")
        self.assertEqual([], self.tidy(source))
        with mock.patch.object(tidy, "run", side_effect=self.run_without_tidy):
            self.assertEqual([], self.tidy(source))
        self.write("state.h", self.GUARDED)
        self.assertTrue(self.tidy(source))
        self.assertTrue(self.tidy(source), "a finding is not kept")

    def run_without_tidy(self, *command: str) -> subprocess.CompletedProcess[str]:
        self.assertNotEqual(command[0], "clang-tidy")
        return subprocess.run(command, cwd=tidy.ROOT, capture_output=True, text=True, check=False)

    def test_a_unit_that_changes_is_split_anew(self) -> None:
        first = self.write("a.cc", "namespace { int x; }\nint F() { return x; }\n")
        second = self.write("b.cc", "namespace { int y; }\nint G() { return y; }\n")
        third = self.write("c.cc", "namespace { int x; }\nint H() { return x; }\n")

        def split() -> list[list[Path]]:
            files = [first, second, third]
            return list(tidy.units(files, list(self.FLAGS), self.results))

        self.assertEqual(split(), [[first, second], [third]])
        self.assertEqual(split(), [[first, second], [third]])
        self.write("c.cc", "int H() { return 0; }\n")
        self.assertEqual(split(), [[first, second, third]])


class StructureTest(unittest.TestCase):
    def test_guard_follows_the_path(self) -> None:
        good = "#ifndef CORE_A_B_H_\n#define CORE_A_B_H_\n#endif\n"
        self.assertFalse(list(structure.cpp_violations(Path("core/a/b.h"), good)))
        self.assertTrue(list(structure.cpp_violations(Path("core/a/c.h"), good)))

    def test_long_files(self) -> None:
        self.assertTrue(list(structure.cpp_violations(Path("core/a.cc"), "\n" * 601)))
        self.assertFalse(list(structure.cpp_violations(Path("core/a_test.cc"), "\n" * 601)))

    def test_a_test_that_sleeps(self) -> None:
        text = "std::this_thread::" + "sleep_for(1s);\n"
        self.assertTrue(list(structure.cpp_violations(Path("core/a_test.cc"), text)))

    def test_a_name_that_nothing_uses(self) -> None:
        used = "using ::testing::Each;\nEXPECT_THAT(v, Each(1));\n"
        self.assertFalse(list(structure.cpp_violations(Path("core/a_test.cc"), used)))
        unused = "using ::testing::Each;\nEXPECT_THAT(v, Eachother(1));\n"
        self.assertTrue(list(structure.cpp_violations(Path("core/a_test.cc"), unused)))

    def test_a_file_that_nothing_compiles(self) -> None:
        def found(path: str, build: str) -> list[str]:
            return list(structure.build_violations(Path(path), Path("core"), build))

        self.assertTrue(found("core/a.cc", 'srcs = ["b.cc"]'))
        self.assertFalse(found("core/a.cc", 'srcs = ["a.cc"]'))
        # A room without a BUILD file belongs to the package of its parent folder.
        self.assertTrue(found("core/room/a.cc", 'srcs = ["a.cc"]'))
        self.assertFalse(found("core/room/a.cc", 'srcs = ["room/a.cc"]'))

    def test_folders_and_pages_are_small(self) -> None:
        def found(count: int, page: str | None) -> list[str]:
            paths = [Path(f"core/a/unit{i}{end}") for i in range(count) for end in (".h", ".cc")]
            paths += [Path("core/a/unit0_test.cc")]
            return list(structure.room_violations(structure.units_of(paths), {"core/a": page}))

        self.assertFalse(found(structure.MAX_UNITS, "# core/a\n"))
        self.assertTrue(found(structure.MAX_UNITS + 1, "# core/a\n"))
        self.assertTrue(found(1, None))
        self.assertTrue(found(1, "line\n" * 81))

    def test_a_page_names_every_unit(self) -> None:
        def found(page: str) -> list[str]:
            return list(structure.index_violations("core/a", ["trie", "trie_map"], page))

        self.assertFalse(found("`trie`, `trie_map.h`"))
        self.assertFalse(found("`trie*`"))
        self.assertEqual(["core/a/README.md does not name trie"], found("a trie, `trie_map`"))

    def test_loose_ends(self) -> None:
        self.assertTrue(list(structure.text_violations(Path("a.h"), "// TO" + "DO: later")))
        self.assertTrue(list(structure.text_violations(Path("a.md"), "see /ro" + "ot/model")))
        self.assertFalse(list(structure.text_violations(Path("a.md"), "see $HOME/root/model")))

    def test_broken_links(self) -> None:
        self.assertTrue(list(structure.link_violations(Path("README.md"), "[x](no_such_file.md)")))
        self.assertFalse(list(structure.link_violations(Path("README.md"), "[x](https://a.b)")))

    def test_links_to_headings_that_are_not_there(self) -> None:
        def found(text: str) -> list[str]:
            return list(structure.link_violations(Path("docs/a.md"), text))

        self.assertFalse(found("# What it does\n[x](#what-it-does)"))
        self.assertTrue(found("# What it does\n[x](#what-it-is)"))
        self.assertTrue(found("```\n# A comment\n```\n[x](#a-comment)"))
        self.assertFalse(found("[x](OPERATING.md#reasons)"))
        self.assertTrue(found("[x](OPERATING.md#raisins)"))

    def test_code_of_a_page_that_is_nowhere_else(self) -> None:
        def found(line: str) -> list[str]:
            page = f"```cpp\n// base/stopwatch.h\n{line}\n```\n"
            return list(structure.snippet_violations(Path("docs/a.md"), page))

        self.assertFalse(found("#ifndef BASE_STOPWATCH_H_"))
        self.assertTrue(found("#ifndef BASE_STOPCLOCK_H_"))


class DefaultsTest(unittest.TestCase):
    def found(self, first: str, second: str) -> list[str]:
        text = "struct {} {{\n  int64_t max_bytes = {};  // why\n}};\n"
        both = [
            *defaults.defaults("a.h", text.format("SenderOptions", first)),
            *defaults.defaults("b.h", text.format("QueueLimits", second)),
        ]
        self.assertEqual(2, len(both))
        return list(defaults.violations(both))

    def test_two_literals(self) -> None:
        self.assertTrue(self.found("int64_t{4} << 30", "int64_t{1} << 40"))
        self.assertTrue(self.found("64", "64"))

    def test_one_literal(self) -> None:
        self.assertFalse(self.found("64", "0"))
        self.assertFalse(self.found("kDefaultMaxBytes", "kDefaultMaxBytes"))
        self.assertFalse(self.found("64", "SenderOptions().max_bytes"))

    def test_a_flag_with_a_literal_of_its_own(self) -> None:
        text = 'struct Options {\n  int pool = 64;\n};\nABSL_FLAG(int32_t, pool, 64, "requests");\n'
        self.assertTrue(list(defaults.violations(defaults.defaults("a.cc", text))))
        named = text.replace("pool, 64", "pool, Options().pool")
        self.assertFalse(list(defaults.violations(defaults.defaults("a.cc", named))))


class CountResultsTest(unittest.TestCase):
    def count(self, *events: dict[str, Any]) -> count_results.Totals:
        totals = count_results.Totals()
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "events.json"
            path.write_text("\n".join(json.dumps(event) for event in events))
            count_results.read_events(path, totals)
        return totals

    def finished(self, code: int) -> dict[str, Any]:
        return {"id": {"buildFinished": {}}, "finished": {"exitCode": {"code": code}}}

    def result(self, xml: str, status: str) -> dict[str, Any]:
        with tempfile.NamedTemporaryFile("w", suffix=".xml", delete=False) as file:
            file.write(xml)
        self.addCleanup(Path(file.name).unlink)
        outputs = [{"name": "test.xml", "uri": f"file://{file.name}"}]
        return {
            "id": {"testResult": {"label": "//a:b"}},
            "testResult": {"status": status, "testActionOutput": outputs},
        }

    def test_cases_are_counted(self) -> None:
        xml = "<a><testcase name='x'/><testcase name='y'><failure/></testcase></a>"
        totals = self.count(self.result(xml, "FAILED"), self.finished(3))
        self.assertEqual((totals.passed, len(totals.failures)), (1, 1))

    def test_a_crash_without_cases_is_a_failure(self) -> None:
        totals = self.count(self.result("", "FAILED"), self.finished(3))
        self.assertEqual(totals.failures, ["//a:b"])

    def test_a_build_that_did_not_finish_is_a_failure(self) -> None:
        self.assertEqual(len(self.count(self.finished(1)).failures), 1)
        self.assertEqual(len(self.count().failures), 1)

    def test_a_target_that_does_not_build_is_a_failure(self) -> None:
        event = {"id": {"targetCompleted": {"label": "//a:b"}}, "completed": {}}
        self.assertEqual(self.count(event, self.finished(3)).failures, ["//a:b (build)"])


if __name__ == "__main__":
    unittest.main()
