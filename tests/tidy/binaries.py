"""What the built programs load at start. Linking libfabric costs 200 ms per process start, hwloc 4 to 10 ms: start-up is sacred."""

import re
import subprocess

SLOW_AT_START = ("libfabric", "libpmix", "libhwloc", "libmpi", "libprotobuf", "libpython")
WATCHED = ("lib/libjal.so", "lib/libjal-emulator.so", "lib/jal/libjal-emulator.so", "bin/jal-smi", "bin/jal-emulator", "bin/jal-llm")
NEEDED = re.compile(r"\(NEEDED\).*\[(.+)\]")
ABSENT = []  # filled with what is not built; the caller prints it


def needed(path):
    out = subprocess.run(["readelf", "-d", str(path)], capture_output=True, text=True, check=True).stdout
    return NEEDED.findall(out)


def check(tree, read=needed):
    ABSENT.clear()
    if tree.build is None:
        ABSENT.extend(WATCHED)
        return
    for name in WATCHED:
        path = tree.build / name
        if not path.exists():
            ABSENT.append(name)
            continue
        for library in read(path):
            if library.startswith(SLOW_AT_START):
                yield name, f"needs {library} at start; load it with dlopen at first use"
