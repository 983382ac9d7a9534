"""The releases of vLLM whose command line, metrics and log lines Weir knows, and what each needs.

A release is added here when it has been tried. What is newer may have renamed a flag that Weir
sets, or a metric that it reads: it would start and not be understood.
"""

from engines.requirements import Release

RELEASES: dict[str, Release] = {
    "0.32.0": Release(
        python=((3, 11), (3, 13)),  # its wheels go to 3.14, Weir itself to 3.13
        glibc=(2, 28),  # manylinux_2_28, as its PyTorch
        machines=("x86_64", "aarch64"),
        # PyTorch 2.13 is built for CUDA 13, whose compilers know nothing older than Turing.
        cuda=(13, 0),
        driver=(580, 65),
        compute_capability=(7, 5),
        torch_cpu="2.13.0",
    ),
}
