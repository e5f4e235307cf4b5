"""Who may include whom. The table below IS the rule (README.md, "Tree", says it in words)."""

import posixpath
import re

# Layer -> the layers it may include besides itself. The longest prefix that matches a path names its layer.
MAY_INCLUDE = {
    "firmware/abi": [],
    "firmware/hal": ["firmware/abi"],
    "firmware/control": ["firmware/abi", "firmware/hal"],
    "firmware/kernel": ["firmware/abi", "firmware/hal"],
    "firmware/ops": ["firmware/abi", "firmware/hal", "firmware/kernel"],
    # A board binds the HAL to what it runs on; the native one runs on the emulator.
    "firmware/boards": ["firmware/abi", "firmware/hal", "firmware/control", "firmware/kernel"],
    "firmware/boards/emu_native": ["firmware/abi", "firmware/hal", "firmware/control", "firmware/kernel", "emulator"],
    "driver/base": ["firmware/abi"],
    "driver": ["firmware/abi", "driver/base"],
    "runtime/transport": ["firmware/abi", "driver/base"],
    "runtime": ["firmware/abi", "driver", "driver/base", "runtime/transport"],
    # The public headers stand on the contract alone: whoever installs libjal gets nothing else.
    "libjal/include": ["firmware/abi"],
    "libjal": ["firmware/abi", "driver", "driver/base", "runtime", "libjal/include"],
    "emulator": ["firmware/abi", "firmware/hal", "firmware/control", "firmware/kernel", "firmware/ops", "firmware/boards",
                 "firmware/boards/emu_native", "driver/base", "runtime/transport"],
    "tools": ["firmware/abi", "driver", "driver/base", "runtime", "libjal/include"],
    # The kernel compiler writes what the SDK's core table describes.
    "tools/jalcc": ["firmware/abi", "firmware/kernel", "driver/base"],
    # The program that hosts an emulator links it; every other tool reaches it through libjal.
    "tools/jal-emulator": ["firmware/abi", "driver/base", "emulator"],
    # An application sees the public face and, for device code and the arguments of shipped ops, the kernel side.
    "samples": ["firmware/abi", "firmware/hal", "firmware/kernel", "firmware/ops", "libjal/include"],
    "tests": None,  # anything
}

# Firmware is freestanding: what it may include from outside the project. Elsewhere any package of README.md, "Dependencies".
FREESTANDING = {"algorithm", "array", "atomic", "bit", "climits", "cmath", "compare", "concepts", "cstdarg", "cstddef", "cstdint",
                "cstring", "initializer_list", "iterator", "limits", "limits.h", "new", "numeric", "optional", "span", "stdarg.h",
                "stdbool.h", "stddef.h", "stdint.h", "string.h", "string_view", "tuple", "type_traits", "utility"}
MUST_BE_FREESTANDING = ("firmware/abi", "firmware/hal", "firmware/control", "firmware/boards/emu_rv64")
ABI_MAY = {"stdint.h", "stddef.h", "limits.h", "assert.h"}
# The public headers' only outside dependency is the language itself.
PUBLIC_FORBIDDEN_PREFIX = ("spdlog/", "nlohmann/", "toml++/", "hwy/", "boost/", "CLI/", "fmt/", "gtest/", "xxhash", "pcre2")

# Where <jal/...> lies: each is on the include path of whoever may include it.
PUBLIC_ROOTS = ("libjal/include/", "firmware/abi/include/", "firmware/hal/include/", "firmware/kernel/include/", "firmware/ops/include/")

INCLUDE = re.compile(r'^\s*#\s*include\s+([<"])([^>"]+)[>"]')


def layer_of(path):
    best = ""
    for layer in MAY_INCLUDE:
        if (path == layer or path.startswith(layer + "/")) and len(layer) > len(best):
            best = layer
    return best


def resolve(tree, path, name):
    """Project path of an include, or None for one from outside."""
    if name.startswith("jal/"):
        for base in PUBLIC_ROOTS:
            if base + name in tree.known:
                return base + name
        return "libjal/include/" + name
    if name in tree.known:
        return name
    beside = posixpath.normpath(posixpath.join(posixpath.dirname(path), name))
    return beside if beside in tree.known else None


def check(tree):
    for path in tree.code():
        layer = layer_of(path)
        if not layer:
            continue
        allowed = MAY_INCLUDE[layer]
        for number, line in tree.lines(path):
            match = INCLUDE.match(line)
            if not match:
                continue
            quote, name = match.groups()
            target = resolve(tree, path, name)
            where = f"{path}:{number}"
            if target is None:
                yield from check_outside(tree, layer, quote, name, where)
                continue
            if target != name and not name.startswith("jal/") and layer not in ("libjal/include", "firmware/abi"):
                yield where, f'write the include from the root: "{target}"'
            to = layer_of(target)
            if allowed is not None and to and to != layer and to not in allowed:
                yield where, f"{layer} may not include {to} ({name}); allowed: {', '.join(allowed) or 'nothing'}"


def check_outside(tree, layer, quote, name, where):
    if quote == '"' and name.split("/")[0] in ("firmware", "driver", "runtime", "libjal", "emulator", "tools", "samples", "tests"):
        if not name.endswith((".pb.h", ".inc")):
            yield where, f'"{name}" does not exist'
    if layer == "firmware/abi" and name not in ABI_MAY:
        yield where, f"the contract includes nothing but {', '.join(sorted(ABI_MAY))}; not {name}"
    elif layer in MUST_BE_FREESTANDING and name not in FREESTANDING:
        yield where, f"{layer} runs without a system: <{name}> is not freestanding"
    elif layer == "libjal/include" and name.startswith(PUBLIC_FORBIDDEN_PREFIX):
        yield where, f"a public header may not ask its user for {name}"
