"""Running formulas on a GPU: what is there, how arrays get in and out, and kernels.

What is there:

* `devices`: whether CuPy and a CUDA device are there, and if not, what to do about it
* `environment`: the same of all that symattn can use, found by a process of its own
* `kinds`: the libraries whose arrays are taken on a CUDA device, one row each
* `foreign`: a call with such arrays, whose result is of the caller's kind

The score of one query and one key as text:

* `dialects`: how each language writes numbers, functions, powers and conditions; one row each
* `positions`: sums of the positions of a query and a key, in whole numbers
* `leaves`: what a kernel loads or computes for each query and key
* `score_text`: the score of one query and one key as text, what it reads, and when it is seen
* `standing`: what the names of a text stand for, in words and as types
* `flex`: a score as the functions that torch's flex attention takes
* `score_modules`: `score_code`, the score as a module to read or to put into a kernel

One Triton kernel for a softmax-weighted sum:

* `key_text`: which keys a block of queries sees, as statements of a kernel
* `parameters`: the parameters of a kernel, in their order
* `triton_code`: the source of a kernel, from the text of its score
* `block_sizes`: how large its blocks are, by the size of a head and the dtype
* `compiling`: machine code from the source, ahead of time and without a device
* `cache`: machine code on disk, checked before it is loaded
* `launching`: strides, leading axes and the arguments of a launch, for arrays of any library
* `fused`: the function that generated source calls
* `fused_step`: how generated source calls it
* `ahead`: the kernels of many formulas, compiled before there is a device

Matrix products, and between them a kernel in CUDA C++ over rows of scores:

* `rows_step`, `rows_code`: how generated source calls it, and the source of the kernel
* `row_blocks`, which that source imports: `row_strips` divide the work, `row_operands` say where
  arrays lie, `row_kernels` are what no formula changes, `row_device` calls CuPy
* `row_choice`: which sizes suit it
"""
