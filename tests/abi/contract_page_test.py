"""The specification of the contract (firmware/abi/README.md) against the headers: complete, of the right sizes, without invented names.

Every word of every struct has its place on the page, and so have every packet type, mailbox operation and feature; sizes on the page are
those of golden_layout.txt; what the page calls a constant or a status exists. That the words are true, only a reader can say."""

import pathlib
import re
import sys
import unittest

import layout_test

PAGE = layout_test.HEADERS.parents[2] / "README.md"
HEADER_TEXT = "\n".join(path.read_text() for path in sorted(layout_test.HEADERS.glob("*.h")))


def defined(prefix):
    return set(re.findall(rf"#define {prefix}(\w+)[ \\\n]+(?:\d|\()", HEADER_TEXT))


def statuses():
    listed = layout_test.HEADERS.joinpath("status.h").read_text()
    return set(re.findall(r"^  X\((\w+),", listed, flags=re.M))


def quoted(text):
    """Words in code spans, which on this page are names."""
    return set(re.findall(r"\w+", " ".join(re.findall(r"`([^`\n]+)`", text))))


class ContractPage(unittest.TestCase):
    def setUp(self):
        self.page = PAGE.read_text()

    def test_every_word_of_every_struct_is_on_the_page(self):
        names = quoted(self.page)
        missing = [f"{struct}.{field}" for _, structs in layout_test.parse_headers(layout_test.HEADERS) for struct, fields in structs
                   for field, _ in [(struct, "")] + fields if field not in names and not field.startswith("reserved")]
        self.assertEqual(missing, [])

    def test_sizes_on_the_page_are_those_of_the_golden_layout(self):
        layout = layout_test.parse_layout(layout_test.golden_text())
        said = dict(re.findall(r"`(jal_\w+)` \((\d+) bytes\)", self.page))
        self.assertEqual({name: int(size) for name, size in said.items()}, {name: layout[name][0] for name in said})
        host_only = {"jal_instance_options", "jal_instance_api", "jal_trace_span"}
        self.assertEqual(set(layout) - set(said), host_only)

    def test_every_packet_type_has_a_heading_with_its_number(self):
        listed = dict(re.findall(r'X\((\w+), (\d+), "\w+"\)', re.search(r"JAL_PACKET_TYPE_LIST\(X\)(.*?)\n\n", HEADER_TEXT, flags=re.S)[1]))
        self.assertGreater(len(listed), 10)
        headings = " ".join(re.findall(r"^### (.*)$", self.page, flags=re.M))
        self.assertEqual({name: number for name, number in re.findall(r"\b([A-Z_]{4,}) (\d+)", headings)}, listed)

    def test_every_mailbox_operation_has_a_row_with_its_number(self):
        listed = dict(re.findall(r"#define JAL_MAILBOX_(\w+)[ \\\n]+(\d+)u", HEADER_TEXT))
        self.assertGreater(len(listed), 10)
        self.assertEqual(dict(re.findall(r"^\| `([A-Z_]+)` (\d+) \|", self.page, flags=re.M)), listed)

    def test_every_feature_is_on_the_page(self):
        features = defined("JAL_FEATURE_")
        self.assertGreater(len(features), 5)
        self.assertEqual({name for name in features if f"JAL_FEATURE_{name}" not in quoted(self.page)}, set())

    def test_constants_on_the_page_exist(self):
        exist = set(re.findall(r"\bJAL_\w+", HEADER_TEXT))
        unknown = {name for name in re.findall(r"\bJAL_\w+", self.page) if name not in exist and not
                   (name.endswith("_") and any(other.startswith(name) for other in exist))}
        self.assertEqual(unknown, set())

    def test_statuses_on_the_page_exist(self):
        known = statuses() | defined("JAL_MAILBOX_") | defined("JAL_POST_")
        known |= set(re.findall(r"^  X\((\w+), \d+, \"", layout_test.HEADERS.joinpath("telemetry.h").read_text(), flags=re.M))
        spans = set(re.findall(r"`_?([A-Z][A-Z_]+)`", self.page))
        states = {name.removeprefix("JAL_QUEUE_STATE_") for name in re.findall(r"JAL_QUEUE_STATE_\w+", HEADER_TEXT)}
        self.assertEqual({name for name in spans if not name.startswith("JAL_")} - known - states, set())


if __name__ == "__main__":
    sys.exit(unittest.main())
