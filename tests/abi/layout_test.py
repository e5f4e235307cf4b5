"""The layout of every struct of firmware/abi, held against golden_layout.txt: as C11 and C++20 of this machine, and for rv64.

The golden file is the contract as old clients know it. A struct or field that is missing there, moved, resized or retyped fails;
after a deliberate change (firmware/abi/README.md, "How to change it") `layout_test.py --renew` writes the file anew.
`--rv64` makes static asserts of the golden file and compiles them with the cross compiler of cmake/toolchain-rv64.cmake; without
that compiler it exits with 77, which ctest shows as skipped."""

import argparse
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
HEADERS = ROOT / "firmware/abi/include/jal/abi"
GOLDEN = ROOT / "tests/abi/golden_layout.txt"
TOOLCHAIN = ROOT / "cmake/toolchain-rv64.cmake"
NATIVE = {"c11": [os.environ.get("JAL_CC", "gcc"), "-x", "c", "-std=c11"],
          "c++20": [os.environ.get("JAL_CXX", "g++"), "-x", "c++", "-std=c++20", "-Wno-invalid-offsetof"]}
WARNINGS = ["-Wall", "-Wextra", "-Werror", "-Wpedantic"]

PLAIN_FIELD = re.compile(r"(?P<type>(?:const |unsigned )*\w+(?: ?\*(?: ?const)?)*) ?(?P<name>\b\w+)(?P<array>(?: ?\[[^\]]+\])*)")
FUNCTION_FIELD = re.compile(r"(?P<result>[\w *]+?) ?\( ?\* ?(?P<name>\w+) ?\) ?\((?P<arguments>.*)\)")


def parse_fields(struct, body):
    """[(name, type)] of a struct's body; a declaration of a kind that the contract does not use is an error."""
    fields = []
    for declaration in filter(None, (" ".join(d.split()) for d in body.split(";"))):
        function = FUNCTION_FIELD.fullmatch(declaration)
        plain = PLAIN_FIELD.fullmatch(declaration)
        if function:
            fields.append((function["name"], f"{function['result']}(*)({function['arguments'].strip()})"))
        elif plain:
            fields.append((plain["name"], plain["type"] + plain["array"]))
        else:
            raise ValueError(f"{struct}: `{declaration}` is not a declaration of the kinds that this test reads")
    return fields


def parse_headers(folder):
    """[(header name, [(struct, [(field, type)])])], sorted by header, structs in order of declaration."""
    headers = []
    for path in sorted(folder.glob("*.h")):
        text = re.sub(r"/\*.*?\*/|//[^\n]*", " ", path.read_text(), flags=re.S)
        text = re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*$", "", text, flags=re.M)
        structs = [(name, parse_fields(name, body)) for name, body, again
                   in re.findall(r"typedef struct (\w+)\s*\{([^{}]*)\}\s*(\w+)\s*;", text) if name == again]
        # Whatever else has a body would escape the golden file.
        bodies = len(re.findall(r"\b(?:struct|union)\b[^;{}()]*\{", text))
        if bodies != len(structs):
            raise ValueError(f"{path.name}: {bodies} structs or unions, of which {len(structs)} are `typedef struct name {{...}} name;`")
        headers.append((path.name, structs))
    return headers


def probe_source(headers):
    """A program that prints the layout in the golden file's form. Valid as C11 and as C++20."""
    lines = ["#include <stdio.h>"] + [f"#include <jal/abi/{header}>" for header, _ in headers]
    lines += ["#ifndef __cplusplus", "#define alignof _Alignof", "#endif", "int main(void) {"]
    for header, structs in headers:
        for struct, fields in structs:
            lines.append(f'  printf("{struct} size %zu align %zu  ({header})\\n", sizeof({struct}), alignof({struct}));')
            for field, kind in fields:
                lines.append(f'  printf("  %zu %zu {field}: {kind}\\n", offsetof({struct}, {field}), sizeof((({struct}*)0)->{field}));')
    return "\n".join(lines + ["  return 0;", "}", ""])


def parse_layout(text):
    """struct -> (size, align, {field: (offset, size)}) of a text in the golden file's form."""
    layout = {}
    fields = {}
    for line in filter(None, text.splitlines()):
        if line.startswith("#"):
            continue
        if line.startswith("  "):
            offset, size, field = line.split(":", 1)[0].split()
            fields[field] = (int(offset), int(size))
            continue
        name, _, size, _, align, _ = line.split()
        if name in layout:
            raise ValueError(f"{name} appears twice")
        fields = {}
        layout[name] = (int(size), int(align), fields)
    return layout


def assert_source(headers, layout):
    """Static asserts of a layout, for a compiler whose programs do not run here."""
    lines = [f"#include <jal/abi/{header}>" for header in headers]
    lines += ["#ifndef __cplusplus", "#define alignof _Alignof", "#endif"]
    for struct, (size, align, fields) in layout.items():
        lines.append(f'JAL_ABI_ASSERT(sizeof({struct}) == {size} && alignof({struct}) == {align}, "{struct}");')
        for field, (offset, bytes_) in fields.items():
            lines.append(f'JAL_ABI_ASSERT(offsetof({struct}, {field}) == {offset} && '
                         f'sizeof((({struct}*)0)->{field}) == {bytes_}, "{struct}.{field}");')
    return "\n".join(lines + [""])


def run_probe(compiler, folder):
    """The layout of the headers in folder (.../jal/abi) by a native compiler, as text."""
    with tempfile.TemporaryDirectory() as build:
        source, program = pathlib.Path(build, "probe.txt"), pathlib.Path(build, "probe")
        source.write_text(probe_source(parse_headers(folder)))
        subprocess.run([*compiler, *WARNINGS, f"-I{folder.parents[1]}", source, "-o", program], check=True)
        return subprocess.run([program], capture_output=True, text=True, check=True).stdout


def golden_text():
    head, _, body = GOLDEN.read_text().partition("\n")
    if not head.startswith("#"):
        raise ValueError("golden_layout.txt must begin with a comment line")
    return body


class NativeLayout(unittest.TestCase):
    maxDiff = None

    def test_headers_have_the_golden_layout_in_both_languages(self):
        for language, compiler in NATIVE.items():
            with self.subTest(language):
                self.assertEqual(run_probe(compiler, HEADERS), golden_text(),
                                 "if the change is meant, follow firmware/abi/README.md, then run tests/abi/layout_test.py --renew")

    def test_shared_structs_have_no_hidden_padding(self):
        for struct, (size, _, fields) in parse_layout(golden_text()).items():
            if struct.endswith("_payload"):
                continue  # views of a packet's bytes: encoded field by field, never in shared memory themselves
            end = 0
            for field, (offset, bytes_) in fields.items():
                self.assertEqual(offset, end, f"{struct}: bytes before {field} have no name")
                end = offset + bytes_
            self.assertEqual(end, size, f"{struct}: bytes at the end have no name")

    def changed(self, header, old, new):
        """The layout after a change of one header, by the C compiler."""
        with tempfile.TemporaryDirectory() as root:
            folder = pathlib.Path(root, "jal/abi")
            shutil.copytree(HEADERS, folder)
            text = (folder / header).read_text()
            self.assertEqual(text.count(old), 1, "the change does not apply")
            (folder / header).write_text(text.replace(old, new))
            return run_probe(NATIVE["c11"], folder)

    def test_a_new_struct_is_a_difference(self):
        new = "typedef struct jal_new {\n  uint32_t word;\n} jal_new;\n#endif"
        self.assertIn("jal_new size 4 align 4  (event.h)\n  0 4 word: uint32_t", self.changed("event.h", "#endif", new))

    def test_swapped_fields_are_a_difference(self):
        now = self.changed("session.h", "  uint32_t cores;\n  uint32_t slices;", "  uint32_t slices;\n  uint32_t cores;")
        self.assertEqual(parse_layout(golden_text())["jal_chip_info"][2]["cores"], (48, 4))
        self.assertEqual(parse_layout(now)["jal_chip_info"][2]["cores"], (52, 4))

    def test_a_changed_signedness_is_a_difference(self):
        now = self.changed("event.h", "int32_t status;  ", "uint32_t status; ")
        self.assertEqual(parse_layout(now), parse_layout(golden_text()))
        self.assertNotEqual(now, golden_text())

    def test_structs_of_other_forms_are_refused(self):
        for text in ("struct jal_x {\n  uint32_t word;\n};\n#endif", "typedef struct {\n  uint32_t word;\n} jal_x;\n#endif",
                     "typedef union jal_x {\n  uint32_t word;\n} jal_x;\n#endif",
                     "typedef struct jal_x {\n  uint32_t word : 3;\n} jal_x;\n#endif",
                     "typedef struct jal_x {\n  uint32_t a, b;\n} jal_x;\n#endif"):
            with self.subTest(text), self.assertRaises(ValueError):
                self.changed("event.h", "#endif", text)


class Rv64Layout(unittest.TestCase):
    def compiles(self, language, layout):
        toolchain = TOOLCHAIN.read_text()
        compiler = re.search(rf"set\(CMAKE_{'C' if language == 'c' else 'CXX'}_COMPILER (\S+)\)", toolchain)[1]
        flags = re.search(r'set\(rv64_flags "([^"]+)"\)', toolchain)[1].replace("${CMAKE_CURRENT_LIST_DIR}", str(TOOLCHAIN.parent))
        standard = "-std=c11" if language == "c" else "-std=c++20"
        command = [compiler, *shlex.split(flags), "-x", language, standard, *WARNINGS, f"-I{HEADERS.parents[1]}", "-fsyntax-only", "-"]
        done = subprocess.run(command, input=assert_source([h.name for h in sorted(HEADERS.glob("*.h"))], layout), capture_output=True,
                              text=True)
        return done.returncode == 0, done.stderr

    def test_headers_have_the_golden_layout_in_both_languages(self):
        layout = parse_layout(golden_text())
        self.assertEqual({struct for _, structs in parse_headers(HEADERS) for struct, _ in structs}, set(layout))
        for language in ("c", "c++"):
            with self.subTest(language):
                holds, message = self.compiles(language, layout)
                self.assertTrue(holds, message)

    def test_a_wrong_golden_offset_does_not_compile(self):
        layout = parse_layout(golden_text())
        layout["jal_packet"][2]["p0"] = (32, 4)
        for language in ("c", "c++"):
            with self.subTest(language):
                holds, message = self.compiles(language, layout)
                self.assertFalse(holds)
                self.assertIn("jal_packet.p0", message)


def renew():
    GOLDEN.write_text("# Layout of the structs of firmware/abi, LP64: offset, size, field: type. Written by layout_test.py --renew.\n" +
                      run_probe(NATIVE["c11"], HEADERS))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--renew", action="store_true", help="write golden_layout.txt anew")
    parser.add_argument("--rv64", action="store_true", help="check the rv64 layout instead of this machine's")
    options = parser.parse_args()
    if options.renew:
        return renew()
    suite = Rv64Layout if options.rv64 else NativeLayout
    if options.rv64:
        for variable in ("CMAKE_C_COMPILER", "CMAKE_CXX_COMPILER"):
            compiler = re.search(rf"set\({variable} (\S+)\)", TOOLCHAIN.read_text())[1]
            if shutil.which(compiler) is None:
                print(f"skipped: {compiler} is not installed, so the rv64 layout was not checked")
                return 77
    result = unittest.TextTestRunner(verbosity=2).run(unittest.defaultTestLoader.loadTestsFromTestCase(suite))
    return 0 if result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
