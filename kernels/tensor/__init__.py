"""The pair at tensor level, for CANN's PyPTO: canvas, tilings and the kernels themselves.

That framework has no int8 convolution and no VREQ8, so conv1 is a matrix product on a host-made img2col,
conv2 one on windows cut from the padded mid, and the requantisation runs on the vector unit in fp32. What the
host does before and after a launch is in `workloads.conv_pair_tensor`.
"""
