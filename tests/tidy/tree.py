"""The repository as the tidy rules see it: the files that git tracks or would track, and their text.

Not a parser: rules read text. A finding is (where, what is wrong and what to do about it)."""

import pathlib
import subprocess

CODE = (".h", ".hpp", ".c", ".cpp", ".inc", ".S")
SCRIPT = (".py", ".sh", ".cmake", ".txt")


class Tree:
    def __init__(self, root, build=None, cache=None):
        self.root = pathlib.Path(root).resolve()
        self.build = pathlib.Path(build).resolve() if build else None
        self.cache = cache if cache is not None else {}
        self._text = {}
        self.is_git = (self.root / ".git").exists()
        self.files = sorted(self._list())
        self.known = set(self.files)

    def _list(self):
        if self.is_git:
            # The machine's own rule about owners does not matter for reading.
            out = self.git("ls-files", "-z", "--cached", "--others", "--exclude-standard")
            return [f for f in set(out.split("\0")) if f and (self.root / f).is_file()]
        return [str(p.relative_to(self.root)) for p in self.root.rglob("*") if p.is_file()]

    def git(self, *args):
        return subprocess.run(["git", "-c", f"safe.directory={self.root}", *args], cwd=self.root, check=True,
                              capture_output=True, text=True).stdout

    def text(self, path):
        if path not in self._text:
            try:
                self._text[path] = (self.root / path).read_text(encoding="utf-8")
            except UnicodeDecodeError:
                self._text[path] = ""
        return self._text[path]

    def lines(self, path):
        return enumerate(self.text(path).splitlines(), 1)

    def code(self):
        return [f for f in self.files if f.endswith(CODE)]
