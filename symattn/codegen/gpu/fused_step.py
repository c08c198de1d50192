"""A softmax-weighted sum as one call of a fused kernel, in generated source.

The kernel stands in the source as text; the statements give it the arrays that it reads and the
scalars of the formula, which are computed once.
"""

from __future__ import annotations

from typing import cast

from symattn.codegen.blocked import Attended, blocked_program
from symattn.codegen.gpu.fused import DTYPES
from symattn.codegen.gpu.triton_code import KernelText, kernel_text
from symattn.codegen.in_blocks import InBlocks
from symattn.codegen.steps import Step, axes_text
from symattn.codegen.writer import Writer
from symattn.errors import NotSupportedError
from symattn.meaning.form import Form
from symattn.nodes import Program
from symattn.nodes.along_axis import queries_and_keys
from symattn.nodes.arrays import size_code
from symattn.notation.names import identifier


def write_fused(step: Step, out: Writer) -> None:
    """Write a weighted sum as one kernel; raises `NotSupportedError` where there is none."""
    node = cast(Attended, step.node)
    kernel = kernel_text(node)
    out.keep_narrow(node, node.matrices, ())  # a kernel reads them as they are
    options = [f"axis={kernel.axis}"]
    options += [f"dots={kernel.dots}"] if kernel.dots else []
    options += [f"sums={kernel.sums}"] if kernel.sums else []
    attend, made = out.fresh("attend"), out.support("fused_kernel")
    out.write(f"{attend} = {made}({out.constant('KERNEL', kernel.text)}, {', '.join(options)})")
    queries, _ = queries_and_keys(node.weights.sizes, node.weights.axis)
    given = [*map(out.code, node.matrices), f"n={size_code(queries, out.context)}"]
    given += _scalars(kernel, out)
    given += _masks(kernel, node, out)
    given.append(f"dtype={out.dtype}")
    dtype, place = out.destination(step)
    given += [f"result={dtype}"] if dtype != out.dtype else []
    given += [f"out={place}"] if place else []
    sums, name, comment = out.sums_of(step), step.name, step.shape
    if sums is not None:
        given.append("lse=True")
        name = f"{name}, {sums}"
        heads = (index.size for index in step.heads)
        comment = f"{comment}, {axes_text((*heads, queries))}"
    out.write(f"{name} = {attend}({', '.join(given)})", comment)


def _scalars(kernel: KernelText, out: Writer) -> list[str]:
    """Return the arguments for the scalars that a kernel reads."""
    found: list[str] = []
    for keyword, forms in (("numbers", kernel.numbers), ("counts", kernel.counts)):
        codes: list[str] = [out.scalar(cast(Form, form)) for form in forms.values()]
        if codes:
            found.append(f"{keyword}=({', '.join(codes)},)")
    return found


def _masks(kernel: KernelText, node: Attended, out: Writer) -> list[str]:
    """Return the argument for the boolean arrays of a mask, each as a stack of matrices."""
    heads = "None, " * len(out.context.axes(node.inner_indices))
    ranks = {array.label: len(array.sizes) for array in node.mask_arrays}
    codes: list[str] = []
    for label in kernel.masks:
        rows = ":, :" if ranks[label] == 2 else "None, :"
        whole = ranks[label] == 2 and not heads
        name = identifier(label)
        codes.append(name if whole else f"{name}[..., {heads}{rows}]")
    return [f"masks=({', '.join(codes)},)"] if codes else []


def why_not_fused(program: Program, dtype: str = "float32") -> str:
    """Return why no kernel computes a formula for arrays of a dtype, ``""`` where one does.

    >>> import symattn as sa
    >>> why_not_fused(sa.formula("softcap", layout="row").program, "float64")
    'float64 in one kernel, which computes in float32'
    """
    if dtype not in DTYPES:
        return f"{dtype} in one kernel, which computes in float32"
    try:
        for node in blocked_program(program).result.walk():
            if isinstance(node, Attended):
                kernel_text(node)
            elif isinstance(node, InBlocks):
                return "weights that are no softmax, in one kernel"
    except NotSupportedError as error:
        return error.what
    return ""
