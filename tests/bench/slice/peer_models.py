"""The demo's model with its linear layers in the peer's formats, embedding and head in BF16: files for llama.cpp, made once and cached.

Not a quantiser of its own for llama.cpp's formats: BF16 and Q8_0 come from PyPI gguf, MXFP4 from the numpy reference, so that both
engines multiply the same weights. A file appears complete or not at all. Needs gguf and numpy."""

import os
import pathlib
import sys

REFERENCE = pathlib.Path(__file__).resolve().parents[2] / "reference"
# Part of the files' names: raise it when what is written changes.
VERSION = 1


def cache_folder():
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (pathlib.Path(base) if base.startswith("/") else pathlib.Path.home() / ".cache") / "jal/bench"


def encode(values, name):
    """Rows of FP32 values as bytes of a GGUF type, and that type."""
    import gguf
    if name != "mxfp4":
        kind = {"bf16": gguf.GGMLQuantizationType.BF16, "q8_0": gguf.GGMLQuantizationType.Q8_0}[name]
        return gguf.quants.quantize(values, kind), kind
    sys.path.insert(0, str(REFERENCE))
    import llama_numpy
    import numpy
    codes, scales = llama_numpy.mx_codes(values, "mxfp4")
    rows, blocks = scales.shape
    codes = codes.reshape(rows, blocks, 16)
    elements = numpy.empty((rows, blocks, 32), numpy.uint8)
    elements[:, :, 0::2], elements[:, :, 1::2] = codes & 15, codes >> 4
    # GGUF's block: the scale, then 16 bytes with element i in the low and i + 16 in the high nibble.
    packed = numpy.concatenate([scales[:, :, None], elements[:, :, :16] | elements[:, :, 16:] << 4], axis=2)
    return packed.reshape(rows, blocks * 17), gguf.GGMLQuantizationType.MXFP4


def copy_metadata(reader, writer):
    import gguf
    for field in reader.fields.values():
        if field.name.startswith("GGUF.") or field.name in ("general.architecture", "general.file_type", "general.quantization_version"):
            continue
        kind = field.types[0]
        inner = field.types[-1] if kind == gguf.GGUFValueType.ARRAY else None
        writer.add_key_value(field.name, field.contents(), kind, sub_type=inner)


def write(source, target, name):
    import gguf
    reader = gguf.GGUFReader(source)
    temporary = target.with_name(f"{target.name}.{os.getpid()}")
    writer = gguf.GGUFWriter(temporary, reader.fields["general.architecture"].contents())
    copy_metadata(reader, writer)
    for tensor in reader.tensors:
        values = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
        if len(tensor.shape) < 2:
            writer.add_tensor(tensor.name, values)
            continue
        data, kind = encode(values, "bf16" if tensor.name in ("token_embd.weight", "output.weight") else name)
        writer.add_tensor(tensor.name, data, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    temporary.replace(target)


def peer_model(source, name):
    """Path of the model in that format: bf16, q8_0 or mxfp4."""
    target = cache_folder() / f"{pathlib.Path(source).stem}.{name}.v{VERSION}.gguf"
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        print(f"slice: writing {target.name} for llama.cpp", file=sys.stderr, flush=True)
        write(source, target, name)
    return target
