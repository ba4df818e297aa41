"""The C++ that runs a lowered program on the simulator, on tensors in files."""

from __future__ import annotations

from math import prod

from emulator.program import Param, Program
from emulator.soc import Soc
from lowering.instructions import ctype

_RUNNER = """\
#include "program.cpp"

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>

// The bytes of a file, in memory of exactly that size: AddressSanitizer then sees what is outside.
static std::unique_ptr<char[]> bytes_of(const char* path, std::size_t size)
{
    std::unique_ptr<char[]> bytes(new char[size]);
    std::ifstream file(path, std::ios::binary);
    if (!file.read(bytes.get(), size) || file.peek() != EOF) {
        std::fprintf(stderr, "%s does not have %zu bytes\\n", path, size);
        std::exit(2);
    }
    return bytes;
}

static void keep(const char* path, const char* bytes, std::size_t size)
{
    std::ofstream file(path, std::ios::binary);
    if (!file.write(bytes, size) || !file.flush()) {
        std::fprintf(stderr, "%s cannot be written\\n", path);
        std::exit(2);
    }
}
"""


def runner(program: Program, soc: Soc) -> str:
    """The C++ of a command that takes a file for each tensor of `main`, in order, and rewrites the outputs.

    A file holds the elements of its tensor, rows after rows, in the machine's byte order; it includes the
    program's text as `program.cpp`.
    """
    params = program.main.params
    given = ", ".join(
        f"reinterpret_cast<{ctype(param.type.dtype)}*>(tensor{number}.get())"
        for number, param in enumerate(params)
    )
    lines = [
        "",
        "int main(int count, char** files)",
        "{",
        f"    if (count != {len(params) + 1}) return 2;",
        f"    pto::NPU_MEMORY_INIT(pto::NPUArch::{soc.name.upper()});",
        *(
            f"    auto tensor{number} = bytes_of(files[{number + 1}], {_size(param)});  // {param.name}"
            for number, param in enumerate(params)
        ),
        f"    lowered::lowered_main({given});",
        *(
            f"    keep(files[{number + 1}], tensor{number}.get(), {_size(param)});"
            for number, param in enumerate(params)
            if param.type.out
        ),
        "}",
    ]
    return _RUNNER + "\n".join(lines) + "\n"


def _size(param: Param) -> int:
    return prod(param.type.shape) * param.type.dtype.size
