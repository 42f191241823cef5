"""Re-encode a GGUF file of block-quantized weights as Q8_0 or F16: `python -m workbench.engines.requantize FROM TO QUANT`.

Quality stays bounded by the source, and the file says so. Speed and memory are those of the new encoding, which is what a
quantization A/B needs. One tensor is in memory at a time. Done in a process of its own by `weights`.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

# llama.cpp's `enum llama_ftype`, the value of `general.file_type`.
_FILE_TYPES = {"F16": 1, "Q8_0": 7}


def reencode(source: Path, target: Path, quant: str) -> None:
    """Write `target` with the matrices of `source` as `quant` ("Q8_0" or "F16") and everything else as it was.

    Vectors (norms) stay F32, as llama.cpp's own converter leaves them; a matrix already in `quant` is copied bit by bit.
    Raises ValueError for another `quant`, OSError when a file can't be read or written.
    """
    if quant not in _FILE_TYPES:
        raise ValueError(f"can't re-encode as {quant}: choose from {', '.join(sorted(_FILE_TYPES))}")
    from gguf import GGMLQuantizationType, GGUFReader, GGUFWriter
    from gguf.quants import dequantize, quantize

    wanted = GGMLQuantizationType[quant]
    reader = GGUFReader(source)
    writer = GGUFWriter(target, str(reader.fields["general.architecture"].contents()))
    _copy_metadata(reader, writer, quant)
    for tensor in reader.tensors:
        # gguf lists the fastest dimension first, numpy last.
        shape = [int(n) for n in reversed(tensor.shape)]
        kind = wanted if len(shape) > 1 else tensor.tensor_type
        dtype, nbytes = _stored(shape, kind)
        writer.add_tensor_info(tensor.name, shape, dtype, nbytes, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    for tensor in reader.tensors:
        if len(tensor.shape) == 1 or tensor.tensor_type == wanted:
            writer.write_tensor_data(tensor.data)
        else:
            writer.write_tensor_data(quantize(dequantize(tensor.data, tensor.tensor_type), wanted))
    writer.close()


def _stored(shape: list[int], kind: Any) -> tuple[Any, int]:
    """The numpy type for gguf's writer (anything but uint8: the shape counts weights, not bytes) and the size in bytes."""
    import numpy
    from gguf import GGML_QUANT_SIZES

    weights_a_block, bytes_a_block = GGML_QUANT_SIZES[kind]
    count = 1
    for n in shape:
        count *= n
    if shape[-1] % weights_a_block:
        raise ValueError(f"rows of {shape[-1]} weights don't divide into blocks of {weights_a_block}")
    return numpy.dtype(numpy.float32), count // weights_a_block * bytes_a_block


def _copy_metadata(reader: Any, writer: Any, quant: str) -> None:
    """All keys of the source but the file type, and two of our own that say where these weights come from."""
    source_quant = _source_quant(reader)
    for key, field in reader.fields.items():
        if key.startswith("GGUF.") or key in ("general.architecture", "general.file_type", "general.description"):
            continue
        sub_type = field.types[-1] if len(field.types) > 1 else None
        writer.add_key_value(key, field.contents(), field.types[0], sub_type)
    writer.add_file_type(_FILE_TYPES[quant])
    writer.add_description(f"Re-encoded as {quant} from {source_quant} weights; quality is bounded by {source_quant}")
    writer.add_string("workbench.reencoded_from", source_quant)


def _source_quant(reader: Any) -> str:
    """The type most weights of the source have."""
    weights: dict[str, int] = {}
    for tensor in reader.tensors:
        name = tensor.tensor_type.name
        weights[name] = weights.get(name, 0) + int(tensor.n_elements)
    return max(weights, key=lambda name: weights[name])


def main(arguments: list[str]) -> int:
    """FROM TO QUANT. Exit status 0, or 3 with one line on stderr."""
    source, target, quant = arguments
    try:
        reencode(Path(source), Path(target), quant)
    except (OSError, ValueError, KeyError) as error:
        print(f"can't re-encode {Path(source).name}: {error}", file=sys.stderr)
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
