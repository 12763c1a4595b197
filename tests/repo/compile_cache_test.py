"""Tests that the key depends on what is installed, and that prune keeps recently used files."""

import os
import tempfile
import unittest
from pathlib import Path

import compile_cache


class KeyTest(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def list_files(self, package: str, *files: str) -> None:
        (self.folder / f"{package}.list").write_text("\n".join(files) + "\n")

    def test_packages_with_headers_or_compilers_count(self) -> None:
        self.list_files("libabsl-dev:amd64", "/usr", "/usr/include/absl/time/time.h")
        self.list_files("g++-12", "/usr/lib/gcc/x86_64-linux-gnu/12/cc1plus")
        self.list_files("binutils-common:amd64", "/usr/share/doc/binutils-common")
        self.list_files("tzdata", "/usr/share/zoneinfo/UTC")
        self.assertEqual(
            compile_cache.compiled_from(self.folder), {"libabsl-dev", "g++-12", "binutils-common"}
        )

    def test_another_version_of_a_package_is_another_key(self) -> None:
        def key(absl: str, tzdata: str) -> str:
            versions = {"libabsl-dev:amd64": absl, "tzdata:all": tzdata}
            return compile_cache.key(compile_cache.package_lines({"libabsl-dev"}, versions))

        self.assertNotEqual(key("1", "1"), key("2", "1"))
        self.assertEqual(key("1", "1"), key("1", "2"))

    def test_headers_of_no_package_count(self) -> None:
        header = self.folder / "local" / "header.h"
        header.parent.mkdir()
        header.write_text("1")
        before = list(compile_cache.file_stamps(self.folder.rglob("*")))
        header.write_text("22")
        self.assertNotEqual(before, list(compile_cache.file_stamps(self.folder.rglob("*"))))

    def test_the_key_of_this_machine_names_its_compiler_and_libraries(self) -> None:
        lines = list(compile_cache.key_lines())
        for name in ("libabsl-dev:", "libgrpc++-dev:", "libstdc++-12-dev:", "g++-12:"):
            self.assertTrue(any(line.startswith(name) for line in lines), name)
        self.assertEqual(compile_cache.key(lines), compile_cache.key(compile_cache.key_lines()))


class PruneTest(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def add(self, name: str, read: int, written: int) -> None:
        path = self.folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(bytes(100))
        os.utime(path, (read, written))

    def kept(self) -> list[str]:
        return sorted(path.name for path in self.folder.rglob("*") if path.is_file())

    def test_the_least_recently_used_go_first(self) -> None:
        self.add("cas/written_long_ago", 10, 10)
        self.add("cas/read_lately", 40, 5)
        self.add("ac/written_lately", 1, 30)
        self.assertEqual(compile_cache.prune(self.folder, 250), 200)
        self.assertEqual(self.kept(), ["read_lately", "written_lately"])

    def test_nothing_goes_while_all_fits(self) -> None:
        self.add("cas/a", 10, 10)
        self.assertEqual(compile_cache.prune(self.folder, 100), 100)
        self.assertEqual(self.kept(), ["a"])


if __name__ == "__main__":
    unittest.main()
