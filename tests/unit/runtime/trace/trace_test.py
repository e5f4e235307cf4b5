"""Reads back what runtime/trace wrote, with Perfetto's own schema (PyPI perfetto)."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

try:
    from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace, TracePacket, TrackEvent
except ImportError:
    print("skipped: the Python package perfetto is not installed (./x setup)")
    sys.exit(77)


class TraceTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        program = pathlib.Path(os.environ["JAL_BUILD_DIR"]) / "bin" / "test_trace_main"
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "trace.pb"
            subprocess.run([program, path], check=True)
            cls.trace = Trace.FromString(path.read_bytes())
        cls.tracks = {p.track_descriptor.uuid: p.track_descriptor for p in cls.trace.packet if p.HasField("track_descriptor")}
        cls.events = [p for p in cls.trace.packet if p.HasField("track_event")]

    def slices(self):
        """(process, track, category, name, start, end, arguments) of begin and end events in file order."""
        open_slices, out = {}, []
        for packet in self.events:
            event = packet.track_event
            if event.type == TrackEvent.TYPE_SLICE_BEGIN:
                self.assertNotIn(event.track_uuid, open_slices, "slices of a track overlap")
                open_slices[event.track_uuid] = packet
            else:
                self.assertEqual(event.type, TrackEvent.TYPE_SLICE_END)
                begin = open_slices.pop(event.track_uuid)
                track = self.tracks[event.track_uuid]
                arguments = {a.name: a.uint_value for a in begin.track_event.debug_annotations}
                out.append((self.tracks[track.parent_uuid].process.process_name, track.name, begin.track_event.categories[0],
                            begin.track_event.name, begin.timestamp, packet.timestamp, arguments))
        self.assertFalse(open_slices)
        return out

    def test_nothing_in_the_file_is_unknown_to_the_schema(self):
        for packet in self.trace.packet:
            for part in (packet, packet.track_descriptor, packet.track_event):
                self.assertEqual(len(part.SerializeToString()), part.ByteSize())
            self.assertEqual(packet.trusted_packet_sequence_id, 1)
        again = Trace.FromString(self.trace.SerializeToString())
        again.DiscardUnknownFields()
        self.assertEqual(again, self.trace)

    def test_first_packet_starts_the_sequence(self):
        self.assertEqual(self.trace.packet[0].sequence_flags, TracePacket.SEQ_INCREMENTAL_STATE_CLEARED)

    def test_devices_are_processes_named_with_their_clock(self):
        names = {t.process.pid: t.process.process_name for t in self.tracks.values() if t.HasField("process")}
        self.assertEqual(names, {1: "device 0 (virtual)", 2: "device 1 (live)"})

    def test_spans_come_back(self):
        slices = self.slices()
        self.assertEqual([s[:6] for s in slices], [
            ("device 0 (virtual)", "core 3", "kernel", "gemv", 1000, 9000),
            ("device 0 (virtual)", "core 3 waits", "wait", "", 2000, 2000),
            ("device 0 (virtual)", "core 3", "kernel", "gemv", 9000, 12000),
            ("device 1 (live)", "copies", "copy", "a name of sixty-four characters, which fills the field to its edge"[:64], 0, 5000)])
        self.assertEqual(slices[0][6], {"start_ps": 1000500, "end_ps": 9000000, "queue": 2, "tag": 77, "bytes": 4096})
        self.assertEqual(slices[2][6]["tag"], 2**64 - 1)
        self.assertEqual(slices[3][6]["bytes"], 2**40)


if __name__ == "__main__":
    unittest.main()
