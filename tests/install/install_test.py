"""An installed copy, moved after its installation: a C and a C++ program built against it the two documented ways run there.

Nothing of the build tree may be needed: it is not on any path, and no program has a path of it inside."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ["JAL_BUILD_DIR"])
SAMPLE = ROOT / "samples/00_hello"

CMAKE_PROJECT = """
cmake_minimum_required(VERSION 3.25)
project(consumer C CXX)
find_package(jal 0.1 REQUIRED)
set(CMAKE_CXX_STANDARD 20)
add_executable(hello_c hello.c)
target_link_libraries(hello_c PRIVATE jal::jal)
add_executable(hello_cpp hello.cpp)
target_link_libraries(hello_cpp PRIVATE jal::jal)
add_custom_command(OUTPUT axpy.jko COMMAND jal::jalcc -o axpy.jko ${CMAKE_CURRENT_SOURCE_DIR}/axpy.cpp DEPENDS axpy.cpp)
add_custom_target(kernels ALL DEPENDS axpy.jko)
"""


def run(*words, **options):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=300, **options)
    if done.returncode != 0:
        raise AssertionError(f"{words}: exit {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done.stdout


class InstallTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = pathlib.Path(tempfile.mkdtemp(prefix="jal-install-"))
        first, cls.prefix = cls.scratch / "first", cls.scratch / "moved"
        run("cmake", "--install", BUILD, "--prefix", first)
        first.rename(cls.prefix)
        cls.work = cls.scratch / "work"
        shutil.copytree(SAMPLE, cls.work)
        (cls.scratch / "runtime").mkdir(mode=0o700)
        # An environment without the project: no setting of the SDK, no library path.
        cls.environment = {key: value for key, value in os.environ.items() if not key.startswith(("JAL_", "LD_"))}
        cls.environment.update(JAL_RUNTIME_DIR=str(cls.scratch / "runtime"), PKG_CONFIG_PATH=str(cls.prefix / "lib/pkgconfig"))

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.scratch)

    def check_hello(self, program, *arguments):
        output = run(program, *arguments, cwd=self.work, env={**self.environment, "LD_LIBRARY_PATH": str(self.prefix / "lib")})
        masked = re.sub(r"\d+\.\d{3} us", "#.### us", output)
        self.assertEqual(masked, (SAMPLE / "expected_output.txt").read_text())

    def test_pkg_config_builds_the_c_program(self):
        flags = run("pkg-config", "--cflags", "--libs", "jal", env=self.environment).split()
        run("cc", "-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-o", "pc_hello_c", "hello.c", *flags, cwd=self.work)
        run(self.prefix / "bin/jalcc", "-o", "axpy.jko", "axpy.cpp", cwd=self.work, env=self.environment)
        self.check_hello("./pc_hello_c")

    def test_find_package_builds_both_programs_and_the_kernel(self):
        (self.work / "CMakeLists.txt").write_text(CMAKE_PROJECT)
        run("cmake", "-S", ".", "-B", "build", f"-DCMAKE_PREFIX_PATH={self.prefix}", cwd=self.work, env=self.environment)
        run("cmake", "--build", "build", cwd=self.work, env=self.environment)
        self.check_hello("build/hello_c", "build/axpy.jko")
        self.check_hello("build/hello_cpp", "build/axpy.jko")

    def test_the_version_that_is_asked_for_is_checked(self):
        (self.work / "newer").mkdir()
        (self.work / "newer/CMakeLists.txt").write_text(CMAKE_PROJECT.replace("jal 0.1", "jal 7.0"))
        with self.assertRaisesRegex(AssertionError, "compatible with requested version|Could not find"):
            run("cmake", "-S", "newer", "-B", "newer/build", f"-DCMAKE_PREFIX_PATH={self.prefix}", cwd=self.work, env=self.environment)

    def test_every_public_header_compiles_alone(self):
        headers = sorted(p.relative_to(self.prefix / "include") for p in (self.prefix / "include").rglob("*.h*"))
        self.assertGreater(len(headers), 30)
        sources = {"c": "", "cpp": ""}
        for header in headers:
            if header.suffix == ".h":
                sources["c"] += f"#include <{header}>\n"
            sources["cpp"] += f"#include <{header}>\n"
        for suffix, text in sources.items():
            (self.work / f"all.{suffix}").write_text(text)
        run("cc", "-std=c11", "-Wall", "-Werror", "-fsyntax-only", "-I", self.prefix / "include", "all.c", cwd=self.work)
        run("c++", "-std=c++20", "-Wall", "-Werror", "-fsyntax-only", "-I", self.prefix / "include", "all.cpp", cwd=self.work)

    def test_programs_run_where_they_are_and_have_a_manual_page(self):
        programs = sorted((self.prefix / "bin").iterdir())
        self.assertTrue({"jal", "jal-smi", "jalcc"} <= {p.name for p in programs})
        for program in programs:
            run(program, "--version", env=self.environment)
            self.assertTrue((self.prefix / f"share/man/man1/{program.name}.1").exists(), program.name)
        self.assertIn("exact", run(self.prefix / "bin/jal", "fidelity", env=self.environment))

    def test_nothing_installed_names_the_build_or_source_tree(self):
        for path in self.prefix.rglob("*"):
            if path.is_symlink() or not path.is_file():
                continue
            if path.suffix in (".pc", ".cmake", ".h", ".hpp", ".toml", ".1"):
                text = path.read_text()
                self.assertNotIn(str(BUILD), text, path)
                self.assertNotIn(str(self.scratch / "first"), text, path)
            elif path.read_bytes()[:4] == b"\x7fELF":
                dynamic = run("readelf", "-d", path)
                for found in re.findall(r"(?:RUNPATH|RPATH).*\[(.*)\]", dynamic):
                    self.assertTrue(found.startswith("$ORIGIN"), f"{path}: {found}")


if __name__ == "__main__":
    sys.exit(unittest.main())
